//! Sizes: the unit in which files take space, and counts, of bytes and others, formatted for
//! people.

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

/// Formats a count with its noun in the right number: `1 table`, `2 tables`, `0 entries`.
pub fn counted(count: u64, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1 => format!("1 {noun}"),
        Some(stem) if !stem.ends_with(['a', 'e', 'o', 'u']) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_for_people() {
        assert_eq!(sized(1023), "1023 B");
        assert_eq!(sized(1536), "1.5 KiB");
        assert_eq!(sized(3 << 40), "3.0 TiB");
        assert_eq!(counted(1, "table entry"), "1 table entry");
        assert_eq!(counted(2, "entry") + &counted(0, "key"), "2 entries0 keys");
    }
}
