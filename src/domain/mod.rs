//! The words: names, owners, claims, leases, failures.
//!
//! Nothing here does I/O, reads a clock or knows Redis.

mod claim;
mod failure;
mod lease;
mod name;
mod owner;
mod reason;

pub use self::{
    claim::Holder,
    lease::InvalidDuration,
    name::{InvalidName, Name},
    owner::{InvalidOwner, Owner},
    reason::LostReason,
};
pub(crate) use self::{
    claim::{Claim, GivenBack, Outcome, Renewal, Verdict, in_millis},
    failure::Failure,
    lease::{Lease, checked},
    owner::Identity,
};
