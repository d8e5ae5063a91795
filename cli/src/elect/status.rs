//! The current leader, as this process knows it.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use leasehold::{Leader, Leadership, LockContext};
use serde_json::{Value, json};

use crate::{
    exit::on_one_line,
    http::{Request, Response, Site},
};

/// The last leader that this process has read, and the leadership of this process. Clones share
/// their state.
#[derive(Clone, Debug, Default)]
pub(super) struct Status(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    seen: Option<Leader>,
    own: Option<(LockContext, String)>,
}

/// Replies by HTTP whether this process leads, for readiness probes: 200 if it leads, else 503.
impl Site for Status {
    async fn respond(&self, request: &Request, _: SocketAddr) -> Response {
        let status = if self.leads() { "200 OK" } else { "503 Service Unavailable" };
        let response = Response::json(status, &self.as_json());
        match request.method.as_str() {
            "GET" => response,
            "HEAD" => response.without_body(),
            _ => Response::not_allowed("GET, HEAD"),
        }
    }
}

impl Status {
    pub(super) fn see(&self, leader: Option<Leader>) {
        self.state().seen = leader;
    }

    /// Records that this process leads, with this value.
    pub(super) fn lead(&self, leadership: &Leadership, value: &str) {
        self.state().own = Some((leadership.context(), value.to_owned()));
    }

    /// Returns whether this process leads. By the clock of this process, the leadership ends a
    /// little before the lease ends in Redis.
    pub(super) fn leads(&self) -> bool {
        self.state().own.as_ref().is_some_and(|(own, _)| own.is_held())
    }

    pub(super) fn as_json(&self) -> Value {
        let state = self.state();
        let own = state.own.as_ref().filter(|(own, _)| own.is_held());
        if let Some((own, value)) = own {
            let owner = own.owner().as_str();
            return json!({ "leader": value, "me": true, "term": own.token(), "owner": owner });
        }
        let seen = state.seen.as_ref();
        json!({
            "leader": seen.and_then(Leader::value),
            "me": false,
            "term": seen.and_then(Leader::term),
            "owner": seen.map(|leader| leader.owner().as_str()),
        })
    }

    /// Returns a line of JSON, or `VALUE TERM`.
    pub(super) fn line(&self, as_json: bool) -> String {
        let json = self.as_json();
        if as_json {
            return format!("{json}\n");
        }
        // A leading Redisson client publishes no value, so the line has its owner instead. If
        // nobody leads, the line is `- -`.
        let leader = json["leader"].as_str().or_else(|| json["owner"].as_str()).unwrap_or("-");
        let leader = on_one_line(leader);
        match json["term"].as_u64() {
            Some(term) => format!("{leader} {term}\n"),
            None => format!("{leader} -\n"),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
