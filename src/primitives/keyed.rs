//! Creates the synchronizers of one key of a map, or of one element of a set, with the same names
//! as in Redisson.

use std::{sync::Arc, time::Duration};

use super::{ExpirableSemaphore, FencedLock, Latch, Lock, ReadWriteLock, Semaphore};
use crate::{
    codec::hash::hash,
    domain::{Kind, Name, Object, Replicas},
    engine::Engine,
    error::Result,
    store::keys::of_entry,
};

/// Creates the synchronizers of map keys or of set elements. `name` is the name of the map or the
/// set. `ttl` and `replicas` are settings of the client.
#[derive(Clone)]
pub(crate) struct Keyed {
    pub(super) engine: Arc<Engine>,
    pub(super) name: Name,
    pub(super) ttl: Duration,
    pub(super) replicas: Option<Replicas>,
}

impl Keyed {
    pub(crate) fn new(
        engine: Arc<Engine>,
        name: Name,
        ttl: Duration,
        replicas: Option<Replicas>,
    ) -> Self {
        Self { engine, name, ttl, replicas }
    }

    fn name_of(&self, key: &[u8], what: &str) -> Result<Name> {
        Ok(Name::new(of_entry(&self.name, &hash(key), what))?)
    }

    fn object(&self, kind: Kind, key: &[u8], what: &str) -> Result<Object> {
        Ok(Object::new(kind, self.name_of(key, what)?))
    }

    fn engine(&self) -> Arc<Engine> {
        Arc::clone(&self.engine)
    }

    pub(super) fn lock(&self, key: &[u8]) -> Result<Lock> {
        let object = self.object(Kind::Lock, key, "lock")?;
        Ok(Lock::new(self.engine(), object, self.ttl).replicated(self.replicas))
    }

    pub(super) fn fair_lock(&self, key: &[u8]) -> Result<Lock> {
        let object = self.object(Kind::Fair, key, "fairlock")?;
        Ok(Lock::new(self.engine(), object, self.ttl).replicated(self.replicas))
    }

    pub(super) fn fenced_lock(&self, key: &[u8]) -> Result<FencedLock> {
        Ok(self.lock(key)?.with_tokens())
    }

    pub(super) fn read_write_lock(&self, key: &[u8]) -> Result<ReadWriteLock> {
        let name = self.name_of(key, "rw_lock")?;
        Ok(ReadWriteLock::new(self.engine(), name, self.ttl).replicated(self.replicas))
    }

    pub(super) fn semaphore(&self, key: &[u8]) -> Result<Semaphore> {
        let object = self.object(Kind::Semaphore, key, "semaphore")?;
        Ok(Semaphore::new(self.engine(), object).replicated(self.replicas))
    }

    pub(super) fn expirable_semaphore(&self, key: &[u8]) -> Result<ExpirableSemaphore> {
        let object = self.object(Kind::Permits, key, "permitexpirablesemaphore")?;
        let semaphore = ExpirableSemaphore::new(self.engine(), object, self.ttl);
        Ok(semaphore.replicated(self.replicas))
    }

    pub(super) fn latch(&self, key: &[u8]) -> Result<Latch> {
        Ok(Latch::new(self.engine(), self.object(Kind::Latch, key, "countdownlatch")?))
    }
}
