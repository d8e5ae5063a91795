//! One server, which keeps its data after a restart. Its link to the clients can be cut.

use fastrand::Rng;
use testkit::{Proxy, Redis, Reply};

use super::{Site, healed, kill_connections, last, objects};
use crate::clock::now;
use crate::fault::{Fault, HealedFault};
use crate::orders::{Object, Place};

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

    fn begin(&self, fault: Fault) {
        match fault {
            Fault::ServerKilled => self.redis.stop(),
            Fault::ServerStopped => self.redis.pause(),
            Fault::ConnectionsKilled => kill_connections([&self.redis]),
            Fault::LinksBlackHoled => self.network.black_hole(true),
            Fault::LinksCut => {
                self.network.refuse(true);
                self.network.cut();
            }
            other => unreachable!("{other:?} is not a fault of one server"),
        }
    }

    fn end(&self, fault: Fault) {
        match fault {
            Fault::ServerKilled => self.redis.start_again(),
            Fault::ServerStopped => self.redis.resume(),
            _ => {
                self.network.black_hole(false);
                self.network.refuse(false);
            }
        }
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
        objects(&["lock-0", "lock-1"], &["fenced-0"])
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

    fn strike(&self, fault: Fault, rng: &mut Rng) -> HealedFault {
        let from = now();
        self.begin(fault);
        last(fault, 5_000, rng);
        self.end(fault);
        healed(fault, from)
    }

    fn ask_masters(&self, words: &[&str]) -> Vec<Reply> {
        vec![self.redis.command(words)]
    }
}
