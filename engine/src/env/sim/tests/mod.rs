//! Tests of the simulation itself: what it must and must not let happen.

mod disk;
mod faults;
mod scheduler;
mod survivors;

use crate::env::Env;
use crate::env::fs::File;
use std::path::Path;
use std::sync::Arc;

/// Creates a file with durable content and name.
fn durable(env: &Env, path: &str, content: &[u8]) -> Arc<dyn File> {
    let path = Path::new(path);
    let file = env.fs.create(path).unwrap();
    file.write_at(content, 0).unwrap();
    file.sync().unwrap();
    env.fs.sync_dir(path.parent().unwrap()).unwrap();
    file
}

fn exists(env: &Env, path: &str) -> bool {
    env.fs.exists(Path::new(path)).unwrap()
}
