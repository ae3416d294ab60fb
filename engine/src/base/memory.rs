//! Allocation of memory for lengths that come from a disk.

use super::error::{Error, ErrorKind, Result};

/// Returns `len` zero bytes. If there is no memory for them, returns an error instead of aborting
/// the process. The caller has checked that the length is plausible (I7).
pub fn zeroed(len: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let enough = usize::try_from(len).ok().filter(|len| bytes.try_reserve_exact(*len).is_ok());
    let Some(len) = enough else {
        return Err(Error::new(ErrorKind::Io, format!("there is no memory for {len} bytes"))
            .advise("give the process more memory"));
    };
    bytes.resize(len, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_much_memory_is_an_error() {
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
        for len in [u64::MAX, i64::MAX as u64 + 1, i64::MAX as u64] {
            assert_eq!(zeroed(len).unwrap_err().kind(), ErrorKind::Io);
        }
    }
}
