//! What is known of Linux's file systems that none of their calls says.

use rustix::fs::fstatfs;
use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::{fs, path::Path};

const BTRFS: u32 = 0x9123_683e;
const EXT: u32 = 0xef53;
const TMPFS: u32 = 0x0102_1994;
const XFS: u32 = 0x5846_5342;

/// Returns the number by which Linux identifies the type of the file system that holds `file`.
pub(super) fn file_system_of(file: &File) -> io::Result<u32> {
    // The type of the field differs between machines; the numbers have 32 bits everywhere.
    Ok(rustix::io::retry_on_intr(|| fstatfs(file))?.f_type as u32)
}

/// Returns true for the file systems, by number, that rewrite a file's blocks in place: ext2 to
/// ext4, XFS and tmpfs. Btrfs, bcachefs and ZFS do not; all others are unknown and count as false.
pub(super) fn keeps_blocks(file_system: u32) -> bool {
    [EXT, XFS, TMPFS].contains(&file_system)
}

/// Returns true for the file systems, by number, where a hole makes room for other files. Btrfs
/// keeps an extent, of up to 128 MiB, until no byte of it is in a file any more, though the file
/// then counts fewer blocks (`bench/record/2026-11-27-clones.md`).
pub(super) fn frees_holes(file_system: u32) -> bool {
    file_system != BTRFS
}

/// Returns how far the system reads ahead of a file of the device that has `path`, by what `sys`,
/// where sysfs is mounted, says of that device; `None` if it says nothing, as of devices that are
/// no block devices.
#[cfg(target_os = "linux")]
pub(super) fn read_ahead_bytes(sys: &Path, path: &Path) -> Option<u64> {
    use rustix::fs::{major, minor, stat};
    let device = stat(path).ok()?.st_dev;
    let device = format!("dev/block/{}:{}", major(device), minor(device));
    // A partition has the queue of its disk, which is the directory above its own.
    let queues = [format!("{device}/queue"), format!("{device}/../queue")];
    queues.iter().find_map(|queue| {
        let text = fs::read_to_string(sys.join(queue).join("read_ahead_kb")).ok()?;
        text.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Guards against mapping files on copy-on-write file systems. A log segment on btrfs ended its
    /// process by a signal once the disk was full: writing its last page again after a sync needed
    /// a block that was not there.
    #[test]
    fn files_that_are_copied_on_write_are_not_mapped() {
        let (bcachefs, zfs, overlay) = (0xca45_1a4e, 0x2fc1_2fc1, 0x794c_7630);
        assert!(![BTRFS, bcachefs, zfs, overlay].into_iter().any(keeps_blocks));
        assert!([EXT, XFS, TMPFS].into_iter().all(keeps_blocks));
    }

    /// Guards against holes for which value GC counts space as freed that the disk still lacks.
    #[test]
    fn no_holes_are_punched_where_they_free_nothing() {
        assert!(!frees_holes(BTRFS));
        assert!([EXT, XFS, TMPFS].into_iter().all(frees_holes));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_partition_is_read_ahead_like_its_disk() {
        use rustix::fs::{major, minor, stat};
        let root = std::env::temp_dir().join(format!("cleavedb-sys-{}", std::process::id()));
        let device = stat(std::env::temp_dir().as_path()).unwrap().st_dev;
        let device = format!("{}:{}", major(device), minor(device));
        let told = |sys: &str, of: &str, text: &str| {
            let (sys, of) = (root.join(sys), root.join(sys).join(of));
            fs::create_dir_all(sys.join("dev/block").join(&device)).unwrap();
            fs::create_dir_all(&of).unwrap();
            fs::write(of.join("read_ahead_kb"), text).unwrap();
            read_ahead_bytes(&sys, &std::env::temp_dir())
        };
        let disk = format!("dev/block/{device}/queue");
        assert_eq!(told("disk", &disk, "8192\n"), Some(8 << 20));
        assert_eq!(told("partition", "dev/block/queue", "4\n"), Some(4 << 10));
        assert_eq!(told("neither", "dev/queue", "4\n"), None);
        assert_eq!(told("text", &disk, "much"), None);
        assert_eq!(read_ahead_bytes(&root, Path::new("/no/such/file")), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
