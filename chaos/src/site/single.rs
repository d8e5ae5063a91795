//! One server that keeps its data, behind a network to be cut.

use fastrand::Rng;
use testkit::{Proxy, Redis, Reply};

use super::{Site, for_a_while, harmless, kill_connections, outage};
use crate::clock::now;
use crate::fault::{Fault, Struck};
use crate::orders::{Kind, Object, Place};

/// One server.
#[derive(Debug)]
pub struct OnSingle {
    redis: Redis,
    network: Proxy,
}

impl OnSingle {
    pub(super) fn start() -> Self {
        let redis = Redis::options().persistent().start();
        let network = Proxy::before(redis.port());
        Self { redis, network }
    }
}

impl Site for OnSingle {
    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.network.port())
    }

    fn apart(&self) -> Place {
        Place::of_all(self.url())
    }

    fn objects(&self) -> Vec<Object> {
        vec![
            Object::new(Kind::Lock, "lock-0"),
            Object::new(Kind::Lock, "lock-1"),
            Object::new(Kind::Fenced, "fenced-0"),
            Object::new(Kind::ReadWrite, "door-0"),
            Object::new(Kind::Semaphore, "semaphore-0").permits(2),
            Object::new(Kind::Permits, "permits-0").permits(2),
        ]
    }

    fn faults(&self) -> &'static [Fault] {
        &[
            Fault::ServerKilled,
            Fault::ServerStopped,
            Fault::ConnectionsKilled,
            Fault::LinksCut,
            Fault::LinksBlackHoled,
        ]
    }

    fn strike(&self, fault: Fault, rng: &mut Rng) -> Struck {
        let (redis, network) = (&self.redis, &self.network);
        let from = now();
        match fault {
            Fault::ServerKilled => {
                for_a_while(rng, (10, 2_000), || redis.stop(), || redis.start_again());
            }
            Fault::ServerStopped => {
                for_a_while(rng, (100, 5_000), || redis.pause(), || redis.resume());
            }
            Fault::LinksCut => {
                let cut = || {
                    network.refuse(true);
                    network.cut();
                };
                for_a_while(rng, (10, 4_000), cut, || network.refuse(false));
            }
            Fault::LinksBlackHoled => {
                let (begin, end) = (|| network.black_hole(true), || network.black_hole(false));
                for_a_while(rng, (100, 5_000), begin, end);
            }
            Fault::ConnectionsKilled => {
                kill_connections([redis]);
                return harmless(fault, from);
            }
            other => unreachable!("{other:?} is none of one server"),
        }
        outage(fault, from)
    }

    fn ask_masters(&self, words: &[&str]) -> Vec<Reply> {
        vec![self.redis.command(words)]
    }
}
