//! Sizes: the unit in which files take space, and byte counts formatted for people.

/// The block size in bytes of the file systems and devices that we know: files take whole blocks,
/// only whole blocks can be punched, and direct reads begin and end at blocks. Where blocks are
/// smaller, space is overestimated a little; the punched ranges are whole blocks there as well.
pub const FILE_BLOCK_BYTES: u64 = 4096;

/// Formats a count of bytes with its unit, to about three digits.
pub fn sized(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if value < 1024.0 {
            let digits = usize::from(unit != "B");
            return format!("{value:.digits$} {unit}");
        }
        value /= 1024.0;
    }
    format!("{value:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(sized(1023), "1023 B");
        assert_eq!(sized(1536), "1.5 KiB");
        assert_eq!(sized(3 << 40), "3.0 TiB");
    }
}
