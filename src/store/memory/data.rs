//! What holders have written beside their locks.

use std::collections::{BTreeMap, HashMap};

use tokio::time::Instant;

use super::MemoryStore;
use crate::domain::{Edit, Failure, Value, Work, Write};

impl MemoryStore {
    /// What was [written](crate::LockGuard::write) under `key` by `Write::set`, and is there still.
    pub(crate) fn value(&self, key: impl AsRef<[u8]>) -> Option<Vec<u8>> {
        let state = self.shared.state.lock();
        state.data.value(key.as_ref(), Instant::now()).map(<[u8]>::to_vec)
    }
}

/// Keys with their values.
#[derive(Default)]
pub(super) struct Data(HashMap<Vec<u8>, Datum>);

struct Datum {
    content: Content,
    ends: Option<Instant>,
}

enum Content {
    Text(Vec<u8>),
    Fields(BTreeMap<Vec<u8>, Vec<u8>>),
}

impl Content {
    fn is_text(&self) -> bool {
        matches!(self, Self::Text(_))
    }
}

impl Data {
    /// Does all of `work`, or nothing.
    pub(super) fn make(&mut self, work: &Work, now: Instant) -> Result<Value, Failure> {
        let Work::Writes(writes) = work else {
            return Err(Failure::Unsupported("the in-memory store runs no scripts"));
        };
        self.0.retain(|_, datum| datum.ends.is_none_or(|ends| now < ends));
        self.fits(writes)?;
        writes.iter().for_each(|write| self.write(write, now));
        Ok(Value::Nil)
    }

    /// Passes if no field is set of what is a text by then.
    fn fits(&self, writes: &[Write]) -> Result<(), Failure> {
        let mut texts: HashMap<&[u8], bool> = HashMap::new();
        for Write { key, edit } in writes {
            let there = || self.0.get(key).is_some_and(|datum| datum.content.is_text());
            let is_text = texts.entry(key).or_insert_with(there);
            match edit {
                Edit::SetField { .. } if *is_text => {
                    let key = String::from_utf8_lossy(key);
                    let words = format!("`{key}` is a string and no hash");
                    return Err(Failure::refused("WRONGTYPE", words));
                }
                Edit::Set(_) => *is_text = true,
                Edit::Delete => *is_text = false,
                Edit::SetField { .. } | Edit::Expire(_) => {}
            }
        }
        Ok(())
    }

    fn write(&mut self, Write { key, edit }: &Write, now: Instant) {
        match edit {
            Edit::Set(value) => {
                let content = Content::Text(value.clone());
                self.0.insert(key.clone(), Datum { content, ends: None });
            }
            Edit::SetField { field, value } => {
                let new = || Datum { content: Content::Fields(BTreeMap::new()), ends: None };
                let datum = self.0.entry(key.clone()).or_insert_with(new);
                if let Content::Fields(fields) = &mut datum.content {
                    fields.insert(field.clone(), value.clone());
                }
            }
            Edit::Delete => drop(self.0.remove(key)),
            Edit::Expire(after) => {
                if let Some(datum) = self.0.get_mut(key) {
                    datum.ends = Some(now + *after);
                }
            }
        }
    }

    /// The text under `key`.
    fn value(&self, key: &[u8], now: Instant) -> Option<&[u8]> {
        match self.content(key, now)? {
            Content::Text(value) => Some(value),
            Content::Fields(_) => None,
        }
    }

    fn content(&self, key: &[u8], now: Instant) -> Option<&Content> {
        let datum = self.0.get(key)?;
        datum.ends.is_none_or(|ends| now < ends).then_some(&datum.content)
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
