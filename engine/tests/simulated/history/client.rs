//! A client that works on lists and sets in every way there is, and records what it saw.

use crate::history::record::Record;
use crate::history::{Access, Attempt, Element, Fate, Stored};
use crate::random::Dice;
use crate::script::{LENGTHS, durability, value};
use cleavedb::env::sim::Simulation;
use cleavedb::env::threads::Threads;
use cleavedb::{
    Db, Durability, Exchange, Expected, Keyspace, ReadOptions, Result, Transaction, Versioned,
    WriteBatch, WriteOptions,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// List and set number `n` are in keyspace number `n % 2`. The values of the second are inline.
pub const LISTS: usize = 6;
pub const SETS: usize = 2;
/// The engine notes at most this many keys of recent commits.
const NOTED_KEYS: usize = 4096;

fn list_key(list: usize) -> String {
    format!("list{list}")
}

fn set_key(element: Element) -> String {
    format!("set{element:016x}")
}

fn encode(elements: &[Element]) -> Vec<u8> {
    elements.iter().flat_map(|element| element.to_be_bytes()).collect()
}

fn decode(value: Option<&[u8]>) -> Vec<Element> {
    let (elements, rest) = value.unwrap_or_default().as_chunks::<8>();
    assert!(rest.is_empty(), "a list has half an element");
    elements.iter().map(|bytes| Element::from_be_bytes(*bytes)).collect()
}

/// One client thread.
pub struct HistoryClient {
    pub db: Db,
    pub keyspaces: [Keyspace; 2],
    pub record: Arc<Record>,
    pub dice: Dice,
    pub threads: Arc<dyn Threads>,
    pub simulation: Simulation,
}

impl HistoryClient {
    fn element(&mut self) -> Element {
        let number = self.record.made.fetch_add(1, Ordering::Relaxed);
        // The elements of a set are inserted at random places of its range.
        (self.dice.below(1 << 16) as u64) << 32 | number
    }

    fn durability(&mut self) -> (Durability, WriteOptions) {
        let durability = durability(self.dice.below(7));
        (durability, WriteOptions::new().durability(durability))
    }

    fn of(&self, number: usize) -> &Keyspace {
        &self.keyspaces[number % 2]
    }

    /// Reads a list, as `options` say.
    fn read_list(&self, list: usize, options: &ReadOptions) -> Result<Vec<Element>> {
        let value = self.of(list).get_with(list_key(list), options)?;
        Ok(decode(value.as_deref()))
    }

    /// Scans a set from an element on, at most `limit` elements, forward or backward.
    fn scan(&self, set: usize, options: &ReadOptions, part: Part) -> Result<Access> {
        let Part { from, to, limit, forward } = part;
        let range = set_key(from)..=set_key(to);
        let mut keys = self.of(set).range_with(range, options).keys();
        let mut elements = BTreeSet::new();
        let mut ended = false;
        while elements.len() < limit && !ended {
            match if forward { keys.next() } else { keys.next_back() } {
                None => ended = true,
                Some(key) => {
                    let text = String::from_utf8(key?).expect("a key");
                    let element = Element::from_str_radix(&text[3..], 16).expect("an element");
                    assert!(elements.insert(element), "a scan shows a key twice");
                }
            }
        }
        // What was not reached was not read.
        let (from, to) = match forward {
            _ if ended => (from, to),
            true => (from, elements.last().copied().unwrap_or(from)),
            false => (elements.first().copied().unwrap_or(to), to),
        };
        Ok(Access::Scan { set, from, to, elements })
    }

    fn part(&mut self) -> Part {
        let (a, b) = (self.dice.below(1 << 16) as u64, self.dice.below(1 << 16) as u64);
        let (from, to) = match self.dice.below(3) {
            0 => (0, Element::MAX),
            _ => (a.min(b) << 32, a.max(b) << 32),
        };
        let limit = [1, 3, usize::MAX][self.dice.below(3)];
        Part { from, to, limit, forward: self.dice.below(2) == 0 }
    }

    /// Makes one or several accesses in a transaction.
    fn access(&mut self, transaction: &Transaction, accesses: &mut Vec<Access>) -> Result<()> {
        let options = transaction.read_options();
        let (list, set) = (self.dice.below(LISTS), self.dice.below(SETS));
        match self.dice.below(10) {
            0..3 => {
                let elements = self.read_list(list, &options)?;
                accesses.push(Access::Read { list, elements });
            }
            3..5 => self.append(transaction, list, accesses)?,
            5..7 => {
                let part = self.part();
                accesses.push(self.scan(set, &options, part)?);
            }
            7..9 => {
                let (element, filling) = (self.element(), self.filling());
                transaction.put(self.of(set), set_key(element), filling)?;
                accesses.push(Access::Insert { set, element });
            }
            _ => {
                let claimed = self.claim(accesses);
                if let Some((set, element)) = claimed {
                    transaction.delete(self.of(set), set_key(element))?;
                    accesses.push(Access::Remove { set, element });
                    self.append(transaction, list, accesses)?;
                }
            }
        }
        Ok(())
    }

    fn append(
        &mut self,
        transaction: &Transaction,
        list: usize,
        accesses: &mut Vec<Access>,
    ) -> Result<()> {
        let elements = self.read_list(list, &transaction.read_options())?;
        let element = self.element();
        let longer = encode(&[&elements[..], &[element]].concat());
        transaction.put(self.of(list), list_key(list), longer)?;
        accesses.push(Access::Read { list, elements });
        accesses.push(Access::Append { list, element });
        Ok(())
    }

    /// Returns an element that a scan has shown and that nobody wants to remove yet.
    fn claim(&self, accesses: &[Access]) -> Option<(usize, Element)> {
        let mut claimed = self.record.claimed.lock().unwrap();
        let shown = accesses.iter().find_map(|access| match access {
            Access::Scan { set, elements, .. } => {
                let free = elements.iter().find(|element| !claimed.contains(element))?;
                Some((*set, *free))
            }
            _ => None,
        })?;
        claimed.insert(shown.1);
        Some(shown)
    }

    fn filling(&mut self) -> Vec<u8> {
        value(self.dice.below(1 << 16), LENGTHS[self.dice.below(LENGTHS.len() - 1)])
    }

    fn transaction(&mut self) -> Result<()> {
        let begun = self.record.tick();
        let transaction = self.db.begin();
        let mut accesses = Vec::new();
        for _ in 0..1 + self.dice.below(5) {
            self.access(&transaction, &mut accesses)?;
            if self.dice.below(3) == 0 {
                self.threads.sleep(Duration::from_micros(self.dice.below(400) as u64));
            }
            if self.dice.below(8) == 0 {
                self.let_time_pass();
            }
        }
        match self.dice.below(30) {
            0 | 1 => self.storm()?,
            2 => self.flood()?,
            _ => {}
        }
        let (durability, options) = self.durability();
        let is_read =
            |access: &&Access| matches!(access, Access::Read { .. } | Access::Scan { .. });
        let reads: Vec<Access> = accesses.iter().take_while(is_read).cloned().collect();
        let result = if self.dice.below(12) == 0 {
            transaction.rollback();
            Ok(false)
        } else {
            transaction.commit_with(&options).map(|()| true)
        };
        if !matches!(result, Ok(true)) {
            // All reads are of one moment, whatever became of the writes.
            self.record.read("the reads of a transaction", begun, reads);
        }
        self.record.wrote("a transaction", (begun, accesses), durability, result)
    }

    /// Writes so much that the keys that are in memory do not reach back to the moment before.
    fn storm(&mut self) -> Result<()> {
        for round in 0..9 {
            let mut batch = WriteBatch::new();
            for number in 0..500 {
                batch.put(self.of(number), format!("fill{:03}", (number * 7 + round) % 999), "x");
            }
            self.db.write(batch)?;
        }
        Ok(())
    }

    /// Inserts elements with a batch of so many keys that the first are not noted at all.
    fn flood(&mut self) -> Result<()> {
        let (begun, mut batch, mut writes) = (self.record.tick(), WriteBatch::new(), Vec::new());
        for _ in 0..4 {
            self.insert(&mut batch, &mut writes);
        }
        for number in 0..NOTED_KEYS {
            batch.put(self.of(number), format!("fill{:03}", number % 999), "x");
        }
        let (durability, options) = self.durability();
        let result = self.db.write_with(batch, &options).map(|()| true);
        self.record.wrote("a flood", (begun, writes), durability, result)
    }

    fn update(&mut self) -> Result<()> {
        let (begun, list) = (self.record.tick(), self.dice.below(LISTS));
        let (element, (durability, options)) = (self.element(), self.durability());
        let mut elements = Vec::new();
        let result = self.of(list).update_with(list_key(list), &options, |old| {
            elements = decode(old);
            Some(encode(&[&elements[..], &[element]].concat()))
        });
        let accesses = vec![Access::Read { list, elements }, Access::Append { list, element }];
        self.record.wrote("an update", (begun, accesses), durability, result.map(|_| true))
    }

    fn versioned(&self, list: usize) -> Result<(Option<Versioned>, Vec<Element>)> {
        let begun = self.record.tick();
        let found = self.of(list).get_versioned(list_key(list))?;
        let elements = decode(found.as_ref().map(|found| &found.value[..]));
        let read = vec![Access::Read { list, elements: elements.clone() }];
        self.record.read("a versioned read", begun, read);
        Ok((found, elements))
    }

    fn compare_and_set(&mut self) -> Result<()> {
        let (begun, list) = (self.record.tick(), self.dice.below(LISTS));
        let (found, elements) = self.versioned(list)?;
        let (element, (durability, options)) = (self.element(), self.durability());
        let by_value = self.dice.below(2) == 0;
        let longer = encode(&[&elements[..], &[element]].concat());
        let accesses = vec![Access::Read { list, elements }, Access::Append { list, element }];
        let result = self.of(list).compare_and_set_with(
            list_key(list),
            expected(found.as_ref(), by_value),
            longer,
            &options,
        );
        let result = result.map(|exchange| match exchange {
            Exchange::Done(_) => true,
            Exchange::Mismatch(found) => {
                let elements = decode(found.as_ref().map(|found| &found.value[..]));
                self.record.read("a mismatch", begun, vec![Access::Read { list, elements }]);
                false
            }
        });
        self.record.wrote("a compare-and-set", (begun, accesses), durability, result)
    }

    /// Writes a batch that requires two lists to be as they were read, and appends to one or both.
    fn batch(&mut self) -> Result<()> {
        let begun = self.record.tick();
        let (first, step) = (self.dice.below(LISTS), 1 + self.dice.below(LISTS - 1));
        let mut batch = WriteBatch::new();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (list, appends) in [(first, true), ((first + step) % LISTS, self.dice.below(2) == 0)] {
            let (found, elements) = self.versioned(list)?;
            let by_value = self.dice.below(2) == 0;
            batch.require(self.of(list), list_key(list), expected(found.as_ref(), by_value));
            if appends {
                let element = self.element();
                let longer = encode(&[&elements[..], &[element]].concat());
                batch.put(self.of(list), list_key(list), longer);
                writes.push(Access::Append { list, element });
            }
            reads.push(Access::Read { list, elements });
        }
        self.insert(&mut batch, &mut writes);
        let (durability, options) = self.durability();
        let result = self.db.write_with(batch, &options).map(|()| true);
        reads.extend(writes);
        self.record.wrote("a batch with requirements", (begun, reads), durability, result)
    }

    fn insert(&mut self, batch: &mut WriteBatch, writes: &mut Vec<Access>) {
        let (set, element) = (self.dice.below(SETS), self.element());
        let filling = self.filling();
        batch.put(self.of(set), set_key(element), filling);
        writes.push(Access::Insert { set, element });
    }

    /// Inserts elements into sets without any condition.
    fn plain_batch(&mut self) -> Result<()> {
        let (begun, mut batch, mut writes) = (self.record.tick(), WriteBatch::new(), Vec::new());
        for _ in 0..1 + self.dice.below(3) {
            self.insert(&mut batch, &mut writes);
        }
        let companions = writes[1..].iter().filter_map(|write| match write {
            Access::Insert { set, element } => Some((*set, *element)),
            _ => None,
        });
        let companions: Vec<_> = companions.collect();
        if self.dice.below(2) == 0 {
            // By the other elements it is known whether the batch has happened.
            let (set, element) = (self.dice.below(SETS), self.element());
            let (filling, life) = (self.filling(), self.life());
            batch.put_expiring(self.of(set), set_key(element), filling, life);
            writes.push(Access::Insert { set, element });
            self.record.expect_expiry(begun, set, element);
        }
        let (durability, options) = self.durability();
        let result = self.db.write_with(batch, &options).map(|()| true);
        let is_written = result.is_ok();
        self.record.wrote("a plain batch", (begun, writes), durability, result)?;
        if is_written {
            self.record.companions.lock().unwrap().extend(companions);
        }
        if self.dice.below(2) == 0 {
            return self.look_at_all();
        }
        Ok(())
    }

    /// Inserts elements into a set by an ingest: all of them at once, into tables.
    fn ingest(&mut self) -> Result<()> {
        let (begun, set) = (self.record.tick(), self.dice.below(SETS));
        let mut elements = BTreeSet::new();
        for _ in 0..1 + self.dice.below(4) {
            elements.insert(self.element());
        }
        let pairs: Vec<_> =
            elements.iter().map(|&element| (set_key(element), self.filling())).collect();
        let result = self.of(set).ingest_sorted(pairs).map(|_| true);
        let insert = |element| Access::Insert { set, element };
        let writes = elements.into_iter().map(insert).collect();
        self.record.wrote("an ingest", (begun, writes), Durability::Sync, result)
    }

    /// Reads everything at one moment: who has not seen the last batch by then is in time only
    /// before this moment.
    fn look_at_all(&self) -> Result<()> {
        let begun = self.record.tick();
        let found = read_stored(self)?;
        self.record.read("a look at everything", begun, found.reads());
        Ok(())
    }

    /// Reads outside of transactions: at a snapshot, or with one call.
    fn plain_reads(&mut self) -> Result<()> {
        let begun = self.record.tick();
        let (list, set, part) = (self.dice.below(LISTS), self.dice.below(SETS), self.part());
        let (what, reads) = match self.dice.below(3) {
            0 => {
                let elements = self.read_list(list, &ReadOptions::new())?;
                ("a get", vec![Access::Read { list, elements }])
            }
            1 => ("a scan", vec![self.scan(set, &ReadOptions::new(), part)?]),
            _ => {
                let snapshot = self.db.snapshot();
                let options = ReadOptions::new().snapshot(&snapshot);
                let ended = self.record.tick();
                self.threads.sleep(Duration::from_micros(self.dice.below(900) as u64));
                let mut reads = vec![self.scan(set, &options, part)?];
                for list in [list, (list + 1) % LISTS] {
                    let elements = self.read_list(list, &options)?;
                    reads.push(Access::Read { list, elements });
                }
                let (what, fate) = ("a snapshot".to_owned(), Fate::Committed);
                let attempt = Attempt { what, accesses: reads, fate, begun, ended };
                self.record.push(attempt, Durability::Buffered);
                return Ok(());
            }
        };
        self.record.read(what, begun, reads);
        Ok(())
    }

    /// Returns how long a value is to live.
    fn life(&mut self) -> Duration {
        Duration::from_millis(1 + self.dice.below(2000) as u64)
    }

    fn let_time_pass(&mut self) {
        self.simulation.advance(Duration::from_millis(self.dice.below(800) as u64));
    }

    /// Takes an element that may expire for a lease: appends to one list while it is there, and
    /// after that to another one, unless the first has changed.
    fn lease(&mut self) -> Result<()> {
        let begun = self.record.tick();
        let expiring = self.record.expiring.lock().unwrap().clone();
        // One of the youngest, as the others are gone.
        let mut youngest: Vec<_> = expiring.into_iter().collect();
        youngest.sort_by_key(|(element, _)| std::cmp::Reverse(*element as u32));
        let number = self.dice.below(2).min(youngest.len().saturating_sub(1));
        let Some(&(element, set)) = youngest.get(number) else { return Ok(()) };
        let (held, free) = (element as usize % LISTS, (element as usize + 1) % LISTS);
        let transaction = self.db.begin();
        let options = transaction.read_options();
        let part = Part { from: element, to: element, limit: 1, forward: self.dice.below(2) == 0 };
        let mut accesses = vec![self.scan(set, &options, part)?];
        let is_held = matches!(&accesses[0], Access::Scan { elements, .. } if !elements.is_empty());
        if is_held {
            self.let_time_pass();
            self.threads.sleep(Duration::from_micros(self.dice.below(4000) as u64));
            self.append(&transaction, held, &mut accesses)?;
        } else {
            let elements = self.read_list(held, &options)?;
            accesses.push(Access::Read { list: held, elements });
            self.append(&transaction, free, &mut accesses)?;
        }
        let (durability, options) = self.durability();
        let result = transaction.commit_with(&options).map(|()| true);
        self.record.wrote("a lease", (begun, accesses), durability, result)
    }

    /// Lets an element stay that may expire.
    fn persist(&mut self) -> Result<()> {
        let begun = self.record.tick();
        let mut expiring = self.record.expiring.lock().unwrap();
        let number = self.dice.below(expiring.len().max(1));
        let Some((element, set)) = expiring.iter().nth(number).map(|(a, b)| (*a, *b)) else {
            return Ok(());
        };
        expiring.remove(&element);
        drop(expiring);
        // What a crash leaves must not depend on whether this is lost.
        let options = WriteOptions::new().durability(Durability::Sync);
        let result = self.of(set).persist_with(set_key(element), &options);
        self.record.gave_deadline("a persist", begun, (set, element), (result, true))
    }

    /// Lets an element expire that would stay.
    fn expire(&mut self) -> Result<()> {
        let begun = self.record.tick();
        let mut companions = self.record.companions.lock().unwrap();
        let number = self.dice.below(companions.len().max(1));
        let Some((set, element)) = (!companions.is_empty()).then(|| companions.remove(number))
        else {
            return Ok(());
        };
        drop(companions);
        if !self.record.claimed.lock().unwrap().insert(element) {
            return Ok(());
        }
        self.record.expect_expiry(begun, set, element);
        let (options, life) = (WriteOptions::new().durability(Durability::Sync), self.life());
        let result = self.of(set).expire_with(set_key(element), life, &options);
        self.record.gave_deadline("an expire", begun, (set, element), (result, false))
    }

    fn churn(&mut self) -> Result<()> {
        match self.dice.below(16) {
            12 => self.persist(),
            13 => self.expire(),
            14 | 15 => {
                self.let_time_pass();
                Ok(())
            }
            0 => self.db.flush(),
            1 => self.db.compact(),
            2 => self.db.gc().map(|_| ()),
            3 => {
                self.threads.sleep(Duration::from_millis(50 * self.dice.below(40) as u64));
                Ok(())
            }
            number => {
                let key = format!("fill{:03}", self.dice.below(60));
                let filling = self.filling();
                if number == 4 {
                    return self.of(number).delete(key);
                }
                self.of(number).put(key, filling)
            }
        }
    }

    pub fn step(&mut self) -> Result<()> {
        match self.dice.below(20) {
            0..6 => self.transaction(),
            6..8 => self.update(),
            8..10 => self.compare_and_set(),
            10..12 => self.batch(),
            12 => self.plain_batch(),
            13 if self.dice.below(3) == 0 => self.flood(),
            13 => self.plain_batch(),
            14 | 15 => self.plain_reads(),
            16 => self.lease(),
            17 => self.ingest(),
            _ => self.churn(),
        }
    }
}

/// The part of a set that a scan reads.
struct Part {
    from: Element,
    to: Element,
    limit: usize,
    forward: bool,
}

fn expected(found: Option<&Versioned>, by_value: bool) -> Expected<'_> {
    match found {
        None => Expected::Absent,
        Some(found) if by_value => Expected::Value(&found.value),
        Some(found) => Expected::Version(found.version),
    }
}

/// Reads all lists and sets at one moment.
pub fn read_stored(client: &HistoryClient) -> Result<Stored> {
    let options = ReadOptions::new().snapshot(&client.db.snapshot());
    let mut stored = Stored::default();
    for list in 0..LISTS {
        stored.lists.push(client.read_list(list, &options)?);
    }
    for set in 0..SETS {
        let part = Part { from: 0, to: Element::MAX, limit: usize::MAX, forward: true };
        let Access::Scan { elements, .. } = client.scan(set, &options, part)? else {
            unreachable!("a scan is recorded as one");
        };
        stored.sets.push(elements);
    }
    Ok(stored)
}
