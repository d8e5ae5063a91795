//! Several servers of one kind, started in parallel, each behind its links.

use std::panic::resume_unwind;
use std::thread;

use crate::links::Links;
use crate::options::Options;
use crate::server::Redis;

/// Starts one server for each name. All servers start at the same time.
///
/// # Panics
///
/// If a server does not start.
pub(crate) fn start_all(names: &[String], options: &Options, links: Option<&Links>) -> Vec<Redis> {
    thread::scope(|scope| {
        let starting = names.iter().map(|name| scope.spawn(move || start(name, options, links)));
        let starting: Vec<_> = starting.collect();
        let started = starting.into_iter().map(|thread| thread.join());
        started.map(|started| started.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

fn start(name: &str, options: &Options, links: Option<&Links>) -> Redis {
    let options = options.clone();
    let Some(links) = links else { return options.start() };
    let started = options.coming_from(links.add(name)).start();
    links.open(name, started.ports());
    started
}

/// The port at which other servers and clients find this server: the port of its link, its TLS
/// port, or its plain port.
pub(crate) fn announced_port(server: &Redis, name: &str, links: Option<&Links>) -> u16 {
    let own = server.ports().for_others();
    links.map_or(own, |links| links.door(name, own))
}
