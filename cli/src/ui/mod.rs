//! `leasehold ui`: one local page that shows what `top` shows.
//!
//! Three rules protect the page:
//!
//! - The `Host` of a request must be an address, `localhost`, or a name that the user has given. If
//!   another site rebinds its DNS name to this address, requests of its page have that name as
//!   `Host`, and are rejected.
//! - A release by force needs `--allow-force`, the same `Origin`, and a token. No other site and no
//!   other user of this machine knows the token, because only the fragment of the printed address
//!   has it.
//! - The page writes names as text, never as HTML, and its policy allows no other scripts.

mod state;

use std::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use leasehold::{Client, Holder};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    args::{Server, Ui},
    exit::{Exit, USAGE, say},
    force::Forcible,
    http::{self, Request, Response},
    inspect::print,
    server,
    signals::{self, Signals},
    watch::Watch,
};

const PAGE: &str = include_str!("page.html");

#[derive(Debug)]
struct Site {
    client: Client,
    watch: Watch,
    hosts: Vec<String>,
    interval: Duration,
    /// The token that a release by force needs. `None` without `--allow-force`.
    token: Option<String>,
}

pub(crate) async fn ui(server: &Server, ui: &Ui) -> Result<u8, Exit> {
    let is_local = ui.listen.ip().is_loopback();
    if ui.allow_force && !is_local {
        let cause = "the token would cross the network unencrypted";
        let remedy = "listen on 127.0.0.1, and reach it by `ssh -L`";
        return Err(Exit::new(USAGE, format!("read `--allow-force`: {cause}; {remedy}")));
    }
    let mut signals = Signals::catch(true)?;
    let address = ui.listen.to_string();
    let listener = http::listen(ui.listen).await?;
    let address = listener.local_addr().map_err(|error| Exit::os("listen on", &address, &error))?;
    let client = server::connect_or_end(server, Client::builder(), &mut signals).await?;
    let site = Site {
        watch: Watch::start(client.clone(), &ui.watching.pattern, ui.watching.interval),
        client,
        hosts: ui.hosts.clone(),
        interval: ui.watching.interval,
        token: ui.allow_force.then(|| Uuid::new_v4().simple().to_string()),
    };
    let fragment = site.token.iter().map(|token| format!("#token={token}")).collect::<String>();
    print(&format!("http://{address}/{fragment}\n"))?;
    if !is_local {
        say(&format!(
            "listen on `{address}`: everyone who can connect to it can read the names of locks"
        ));
    }
    tokio::select! {
        never = http::serve(listener, site) => match never {},
        signal = signals.fatal() => Ok(signals::code(signal)),
    }
}

impl http::Site for Site {
    async fn respond(&self, request: &Request, peer: SocketAddr) -> Response {
        if !request.header("host").is_some_and(|host| self.is_host(host)) {
            return Response::error("421 Misdirected Request");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") => {
                let nonce = Uuid::new_v4().simple().to_string();
                Response::page(PAGE.replace("NONCE", &nonce), nonce)
            }
            ("GET", "/state") => {
                let sample = self.watch.last();
                Response::json(
                    "200 OK",
                    &state::state(&sample, self.interval, self.token.is_some()),
                )
            }
            ("POST", "/force") => self.force(request, peer).await,
            (_, "/" | "/state") => Response::not_allowed("GET"),
            (_, "/force") => Response::not_allowed("POST"),
            _ => Response::error("404 Not Found"),
        }
    }
}

impl Site {
    /// Returns whether a browser may use `host` for this server. An address is safe, because the
    /// site of an attacker has a name.
    fn is_host(&self, host: &str) -> bool {
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
            _ => host,
        };
        let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
        address.parse::<IpAddr>().is_ok()
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|it| it.eq_ignore_ascii_case(name))
    }

    /// Releases the holders that the request names, if they still hold the lock.
    async fn force(&self, request: &Request, peer: SocketAddr) -> Response {
        if !self.may_force(request) {
            let cause = "a release by force needs `leasehold ui --allow-force` and its address";
            return Response::json("403 Forbidden", &json!({ "error": cause }));
        }
        let body: Option<Value> = serde_json::from_slice(&request.body).ok();
        let read = || {
            let body = body.as_ref()?;
            let owners = body["owners"].as_array()?.iter().map(|it| it.as_str().map(str::to_owned));
            Some((body["name"].as_str()?.to_owned(), owners.collect::<Option<Vec<_>>>()?))
        };
        let Some((name, owners)) = read() else { return Response::error("400 Bad Request") };
        match self.release(&name, &owners, peer).await {
            Ok(released) => Response::json("200 OK", &json!({ "released": released })),
            Err(exit) => Response::json("409 Conflict", &json!({ "error": exit.reason() })),
        }
    }

    /// Returns whether the request comes from the page of a user who knows the token.
    fn may_force(&self, request: &Request) -> bool {
        let Some(token) = &self.token else { return false };
        let origin = request.header("host").map(|host| format!("http://{host}"));
        request.header("origin") == origin.as_deref()
            && request.header("content-type") == Some("application/json")
            && request.header("x-leasehold-token").is_some_and(|it| is_same(it, token))
    }

    async fn release(
        &self,
        name: &str,
        owners: &[String],
        peer: SocketAddr,
    ) -> Result<Vec<String>, Exit> {
        let held = Forcible::find(&self.client, name).await?.only(owners);
        let mut all = vec![];
        let released = |holder: &Holder| {
            let owner = holder.owner().as_str();
            say(&format!("unlock `{name}`: released by force for {peer}, was held by {holder}"));
            self.watch.forced(held.name().clone(), owner.to_owned());
            all.push(owner.to_owned());
        };
        held.release(&format!("ui for {peer}"), released).await?;
        Ok(all)
    }
}

/// Compares without an early end, so that the time of a rejection does not reveal a part of the
/// token.
fn is_same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}
