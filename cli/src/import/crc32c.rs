//! CRC-32C (Castagnoli), which LevelDB and RocksDB put behind blocks and before log records, and
//! their masking of it.

/// The polynomial, its bits reversed.
const POLYNOMIAL: u32 = 0x82f6_3b78;
/// What a masked checksum has added.
const MASK_DELTA: u32 = 0xa282_ead8;

/// Table `n` advances a byte that has `n` more behind it in a group of eight.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// Returns the checksum of the parts, one behind the other.
pub(crate) fn crc32c(parts: &[&[u8]]) -> u32 {
    !parts.iter().fold(!0, |crc, part| extend(crc, part))
}

/// Returns the checksum as it is stored, so that checksums of bytes that hold checksums stay good.
pub(crate) fn masked(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(MASK_DELTA)
}

fn extend(mut crc: u32, bytes: &[u8]) -> u32 {
    let mut groups = bytes.chunks_exact(8);
    for group in &mut groups {
        let low = crc ^ u32::from_le_bytes([group[0], group[1], group[2], group[3]]);
        let low = low.to_le_bytes();
        crc = TABLES[7][usize::from(low[0])]
            ^ TABLES[6][usize::from(low[1])]
            ^ TABLES[5][usize::from(low[2])]
            ^ TABLES[4][usize::from(low[3])]
            ^ TABLES[3][usize::from(group[4])]
            ^ TABLES[2][usize::from(group[5])]
            ^ TABLES[1][usize::from(group[6])]
            ^ TABLES[0][usize::from(group[7])];
    }
    for byte in groups.remainder() {
        crc = crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of RFC 3720, appendix B.4.
    #[test]
    fn checksums_are_those_of_the_standard() {
        assert_eq!(crc32c(&[&[0; 32]]), 0x8a91_36aa);
        assert_eq!(crc32c(&[&[0xff; 32]]), 0x62a8_ab43);
        let ascending: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&[&ascending]), 0x46dd_794e);
        assert_eq!(crc32c(&[&ascending[..5], &ascending[5..]]), 0x46dd_794e);
        assert_eq!(crc32c(&[b"123456789"]), 0xe306_9283);
        assert_ne!(masked(5), 5);
    }
}
