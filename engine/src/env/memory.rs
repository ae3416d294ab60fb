//! How much memory the process may use: what the machine has, or less if a control group that the
//! process is in allows less. Beyond that the system ends the process.

use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The bytes of memory from which on no default shrinks. With less, memory settings that are at
/// their defaults do. With the defaults for more, a process that overwrote 1 GB was killed in
/// 192 MiB (`bench/record/2026-11-29-small-memory.md`).
const ENOUGH_BYTES: u64 = 512 << 20;
/// The bytes of that for what does not shrink: what reads and jobs hold while they run, and what
/// the allocator keeps. With 64 MiB, the process above had no page cache left in 128 MiB.
const FIXED_BYTES: u64 = 96 << 20;
/// However little memory there is, a default keeps this part (one in this many).
const LEAST_PART: u64 = 32;

/// Returns the bytes of memory that the process may use, as of the first call; `None` if the system
/// does not tell.
pub fn limit() -> Option<u64> {
    static LIMIT: OnceLock<Option<u64>> = OnceLock::new();
    *LIMIT.get_or_init(|| limit_in(Path::new("/")))
}

/// Returns a default of `bytes` bytes, or as much less as there is less memory than is enough.
pub fn shrunk(bytes: u64, limit: Option<u64>) -> u64 {
    let left = limit.unwrap_or(u64::MAX).clamp(FIXED_BYTES, ENOUGH_BYTES) - FIXED_BYTES;
    let share = left as f64 / (ENOUGH_BYTES - FIXED_BYTES) as f64;
    (bytes as f64 * share.max(1.0 / LEAST_PART as f64)) as u64
}

/// Returns the least of all limits that the files below `root` tell.
fn limit_in(root: &Path) -> Option<u64> {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let groups = read("proc/self/cgroup");
    let of_groups = groups.lines().filter_map(|line| {
        let (_, line) = line.split_once(':')?;
        let (controllers, group) = line.split_once(':')?;
        let (dir, file) = match controllers {
            "" => ("sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|it| it == "memory") => {
                ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return None,
        };
        // The groups above it count as well. In a container the path may be that of the host, and
        // the directory that of the container's own group.
        let above = Path::new(group).ancestors();
        let limits = above.filter_map(|group| {
            let group = group.strip_prefix("/").unwrap_or(group);
            read(Path::new(dir).join(group).join(file).to_str()?).trim().parse().ok()
        });
        limits.min()
    });
    of_groups.chain(memory_of_machine(&read("proc/meminfo"))).min()
}

/// Returns the bytes of memory of the machine, which `/proc/meminfo` tells in KiB.
fn memory_of_machine(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = total.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc_dir;

    const MIB: u64 = 1 << 20;

    /// Returns the limit where these files are there.
    fn limit_of(name: &str, files: &[(&str, &str)]) -> Option<u64> {
        let root = doc_dir(&format!("memory-{name}"));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        limit_in(&root)
    }

    const MACHINE: (&str, &str) =
        ("proc/meminfo", "MemTotal:       24576000 kB\nMemFree:        17000000 kB\n");

    #[test]
    fn the_least_limit_of_all_counts() {
        assert_eq!(limit_of("nothing", &[]), None);
        assert_eq!(limit_of("machine", &[MACHINE]), Some(24_000 * MIB));
        let groups = ("proc/self/cgroup", "0::/user.slice/store.service\n");
        let none = ("sys/fs/cgroup/user.slice/store.service/memory.max", "max\n");
        assert_eq!(limit_of("unlimited", &[MACHINE, groups, none]), Some(24_000 * MIB));
        let own = ("sys/fs/cgroup/user.slice/store.service/memory.max", "201326592\n");
        assert_eq!(limit_of("own", &[MACHINE, groups, own]), Some(192 * MIB));
        let above = ("sys/fs/cgroup/user.slice/memory.max", "100663296\n");
        assert_eq!(limit_of("above", &[MACHINE, groups, own, above]), Some(96 * MIB));
        let large = ("sys/fs/cgroup/user.slice/store.service/memory.max", "99999999999999\n");
        assert_eq!(limit_of("large", &[MACHINE, groups, large]), Some(24_000 * MIB));
    }

    #[test]
    fn groups_of_the_first_version_and_of_containers_count() {
        let groups = "12:cpu,cpuacct:/a\n11:memory:/docker/7f\n1:name=systemd:/b\n0::/\n";
        let groups = ("proc/self/cgroup", groups);
        let of_host = ("sys/fs/cgroup/memory/docker/7f/memory.limit_in_bytes", "209715200\n");
        assert_eq!(limit_of("v1", &[MACHINE, groups, of_host]), Some(200 * MIB));
        let of_container = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
        assert_eq!(limit_of("container", &[MACHINE, groups, of_container]), Some(100 * MIB));
        let unlimited = ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit_of("v1-unlimited", &[MACHINE, groups, unlimited]), Some(24_000 * MIB));
    }

    #[test]
    fn what_is_no_number_is_no_limit() {
        let bad = ("proc/meminfo", "MemTotal: many kB\n");
        let groups = ("proc/self/cgroup", "0::\n:\nmemory\n5:memory:\n");
        let text = ("sys/fs/cgroup/memory.max", "12 MiB\n");
        assert_eq!(limit_of("text", &[bad, groups, text]), None);
        assert!(limit().is_none_or(|bytes| bytes > MIB), "{:?}", limit());
    }

    #[test]
    fn defaults_shrink_in_proportion() {
        for limit in [None, Some(u64::MAX), Some(512 * MIB)] {
            assert_eq!(shrunk(64 * MIB, limit), 64 * MIB);
        }
        let shrunk_to = |mib: u64| shrunk(64 * MIB, Some(mib * MIB)) / MIB;
        assert_eq!([304, 192, 128, 96, 0].map(shrunk_to), [32, 14, 4, 2, 2]);
    }
}
