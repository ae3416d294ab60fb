//! The README's example: `cargo run -p cleavedb --example quickstart`.

use cleavedb::WriteBatch;

fn main() -> cleavedb::Result<()> {
    let db = cleavedb::open("target/people")?;
    let names = db.open_or_create_keyspace("names")?;
    names.put("ada", "Ada Lovelace")?;
    let mut batch = WriteBatch::new();
    batch.put(&names, "grace", "Grace Hopper").delete(&names, "ada");
    db.write(batch)?;
    for entry in names.range("a".."h") {
        let (key, value) = entry?;
        println!("{}: {}", key.escape_ascii(), value.escape_ascii());
    }
    db.close()
}
