//! Replaces `metrics.rs` if the feature `metrics` is off. The functions have the same names, but do
//! nothing and cost no instruction.

use std::{future::Future, time::Duration};

use crate::{
    domain::{Claim, Ended, Failure, Object},
    error::Error,
};

pub(crate) fn describe() {}

#[derive(Debug)]
pub(crate) struct Acquisition;

impl Acquisition {
    pub(crate) fn waits(_: &Object, _: bool) -> Self {
        Self
    }

    pub(crate) fn tries(_: &Object, _: bool) -> Self {
        Self
    }

    pub(crate) fn ended<T>(&mut self, _: &Result<T, Error>) {}

    pub(crate) fn is_busy(&mut self) {}
}

pub(crate) fn hold_began(_: &Claim) {}

pub(crate) fn hold_ended(_: &Claim, _: Ended, _: &'static str, _: impl FnOnce() -> Duration) {}

pub(crate) fn handed_off(_: &Claim) {}

pub(crate) fn renewed(_: usize, _: usize) {}

pub(crate) fn lagged(_: Duration, _: impl FnOnce() -> Duration) {}

pub(crate) fn release_abandoned(_: &Claim) {}

pub(crate) fn woken() {}

pub(crate) fn connection_lost(_: &str, _: &'static str) {}

pub(crate) fn decided<T>(result: Result<T, Error>) -> Result<T, Error> {
    result
}

pub(crate) fn timed<T, R>(
    _: impl FnOnce() -> &'static str,
    sent: impl Future<Output = Result<T, Failure>>,
    _: R,
) -> impl Future<Output = Result<T, Failure>>
where
    R: FnOnce(&T) -> bool,
{
    sent
}
