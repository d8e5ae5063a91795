//! The basic types: names, owners, claims, leases, failures.
//!
//! They do no I/O and read no clock. Only `failure.rs` knows of Redis: it has the error codes.

mod backoff;
mod claim;
mod client_info;
mod failure;
mod guarded;
mod hashed;
mod hazard;
mod health;
mod inspection;
mod leader;
mod lease;
mod log_throttle;
mod mutex;
mod name;
mod object;
mod owner;
mod permit;
mod rate;
mod reason;
mod replicas;
mod report;
mod stats;
mod wait_strategy;

pub(crate) use self::log_throttle::LOG_INTERVAL;
pub(crate) use self::{
    backoff::{Backoff, spread},
    claim::{
        Claim, Element, Ending, MOST_TOKEN, Outcome, Place, ReleaseMode, ReleaseReply,
        RemoteWaiters, Renewal, Share, Taken, Token, Verdict, in_millis,
    },
    failure::{Failure, Refusal},
    guarded::{Edit, Work},
    hashed::Map,
    health::About,
    lease::{CENTURY, Lease, checked},
    log_throttle::LogThrottle,
    mutex::Mutex,
    object::{Kind, Object, WaiterRecord},
    owner::Identity,
    permit::{Counts, MOST_AT_ONCE, MOST_PERMITS, permits_of},
    reason::Ended,
};
pub use self::{
    claim::Holder,
    client_info::ClientInfo,
    guarded::{Script, Value, Write},
    hazard::{Finding, Hazard},
    health::{Health, NodeHealth, Role},
    inspection::{Inspection, NameCursor, ObjectKind, Waiter},
    leader::Leader,
    lease::InvalidDuration,
    name::{InvalidName, Name},
    owner::{InvalidOwner, Owner},
    permit::{InvalidPermitId, PermitId},
    rate::{Pace, Quota, Rate, RatePermits},
    reason::LostReason,
    replicas::Replicas,
    report::ServerReport,
    stats::Stats,
    wait_strategy::WaitStrategy,
};
