//! The events that Sentinels publish, with their times.

use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::clock::clock;
use crate::server::Redis;
use crate::wire::{Connection, Reply};

/// An event that a Sentinel has published.
#[derive(Clone, Debug)]
pub struct Event {
    /// The time at which the event arrived.
    pub at: Instant,
    /// The number of the Sentinel.
    pub sentinel: usize,
    /// The name of the event, such as `+switch-master`.
    pub name: String,
    /// The text of the event, such as `mymaster 127.0.0.1 6379 127.0.0.1 6380`.
    pub text: String,
}

/// Records all events of all Sentinels while this value exists.
#[derive(Debug)]
pub struct Events {
    received: Mutex<Receiver<Event>>,
    streams: Vec<TcpStream>,
}

impl Events {
    /// Subscribes at every running Sentinel.
    pub(super) fn of(sentinels: &[Redis]) -> Self {
        let (tell, received) = channel();
        let running = sentinels.iter().enumerate().filter(|(_, sentinel)| sentinel.is_running());
        let streams = running.map(|(number, sentinel)| listen(number, sentinel, tell.clone()));
        Self { streams: streams.collect(), received: Mutex::new(received) }
    }

    /// Waits for an event `name` of any Sentinel. Drops the events before it.
    ///
    /// # Panics
    ///
    /// If no such event comes within `limit`. The message shows the events that came.
    #[track_caller]
    pub fn wait_for(&self, name: &str, limit: Duration) -> Event {
        let started = clock();
        let received = self.received.lock().unwrap_or_else(PoisonError::into_inner);
        let mut others = Vec::new();
        loop {
            match received.recv_timeout(limit.saturating_sub(started.elapsed())) {
                Ok(event) if event.name == name => return event,
                Ok(event) => others.push((event.sentinel, event.name, event.text)),
                Err(_) => panic!("no event {name} within {limit:?}; other events: {others:#?}"),
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for stream in &self.streams {
            // This fails if the Sentinel has already closed the connection.
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

/// Reads the events of a Sentinel in a thread, until the connection is closed.
fn listen(number: usize, sentinel: &Redis, tell: Sender<Event>) -> TcpStream {
    let mut connection = sentinel.access().open().expect("the Sentinel accepts connections");
    let confirmed = connection.command(&["PSUBSCRIBE", "*"]);
    assert_eq!(confirmed.list()[0].text(), "psubscribe");
    let stream = connection.stream().expect("a socket can be shared");
    stream.set_read_timeout(None).expect("a socket can have no timeout");
    thread::spawn(move || {
        while let Some((name, text)) = next_message(&mut connection) {
            let event = Event { at: clock(), sentinel: number, name, text };
            if tell.send(event).is_err() {
                break;
            }
        }
    });
    stream
}

fn next_message(connection: &mut Connection) -> Option<(String, String)> {
    match connection.next_reply().ok()?.list() {
        [_, _, Reply::Text(name), Reply::Text(text)] => Some((name.clone(), text.clone())),
        other => panic!("not a message of a Sentinel: {other:?}"),
    }
}
