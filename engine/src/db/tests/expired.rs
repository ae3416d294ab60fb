//! Reads whose clock runs on between the number and the time.

use crate::Db;
use crate::db::read_options::ReadOptions;
use crate::env::Env;
use crate::read::get::Lookup;
use std::path::Path;
use std::time::Duration;

/// A value is replaced before it expires, again and again. A reader that takes the number, and then
/// the time when the older value has expired, saw nothing.
#[test]
fn i06_what_is_replaced_before_it_expires_is_never_absent() {
    let (env, simulation) = Env::simulated(1);
    simulation.clone().run(|| {
        let db = Db::builder(Path::new("/db")).env(env).open().unwrap();
        let keys = db.default_keyspace();
        for sealed in [false, true] {
            keys.put_expiring("lease", "1", Duration::from_secs(10)).unwrap();
            let (view, point) = keys.peek_at(None).unwrap();
            simulation.advance(Duration::from_secs(9));
            if sealed {
                keys.state.rotate_memtable();
            }
            keys.put_expiring("lease", "2", Duration::from_secs(10)).unwrap();
            simulation.advance(Duration::from_secs(2));
            let found = keys.look_up(view, b"lease", point, &ReadOptions::new()).unwrap().1;
            assert!(matches!(found, Lookup::Inline(value, _) if value == b"2"));
            // Once nobody replaces it, it is absent.
            let (view, point) = keys.peek_at(None).unwrap();
            simulation.advance(Duration::from_secs(9));
            keys.put("other", "").unwrap();
            let found = keys.look_up(view, b"lease", point, &ReadOptions::new()).unwrap().1;
            assert_eq!(found, Lookup::Nothing);
        }
    });
}
