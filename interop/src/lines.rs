//! The two pipes of a process: numbered commands, and their replies in any order.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Map, Value};

use crate::answer::{Answer, whole};

/// The connection to one process. All handles of its threads share it.
#[derive(Debug)]
pub(crate) struct Lines {
    commands: Mutex<ChildStdin>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    last_id: i64,
    /// Whether the process has closed its stdout. After that, no reply can come.
    ended: bool,
    answers: HashMap<i64, Sender<Answer>>,
}

impl Lines {
    /// Reads the first line, and starts to read the replies after it.
    ///
    /// Returns `None` if the process ended without a first line.
    pub(crate) fn open(commands: ChildStdin, answers: ChildStdout) -> Option<(Value, Self)> {
        let mut answers = BufReader::new(answers).lines();
        let ready = parse(&answers.next()?.ok()?);

        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let lines = Self { commands: Mutex::new(commands), waiting: Arc::clone(&waiting) };
        thread::spawn(move || {
            for line in answers.map_while(Result::ok) {
                let line = parse(&line);
                let receiver = lock(&waiting).answers.remove(&whole(&line["id"]));
                // If the caller has dropped the call, nobody receives the reply.
                _ = receiver.map(|receiver| receiver.send(Answer::read(&line)));
            }
            let mut waiting = lock(&waiting);
            waiting.ended = true;
            waiting.answers.clear();
        });
        Some((ready, lines))
    }

    /// Sends a command. If the process ends without a reply, the channel is closed.
    pub(crate) fn send(&self, mut command: Map<String, Value>) -> Receiver<Answer> {
        let (sender, receiver) = channel();
        {
            let mut waiting = lock(&self.waiting);
            if waiting.ended {
                return receiver;
            }
            waiting.last_id += 1;
            command.insert("id".into(), waiting.last_id.into());
            let id = waiting.last_id;
            waiting.answers.insert(id, sender);
        }
        let line = Value::Object(command).to_string();
        // If this pipe is broken, the pipe of the replies is closed, too, and the thread that reads
        // replies ends.
        _ = writeln!(lock(&self.commands), "{line}");
        receiver
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("the process wrote `{line}`: {e}"))
}

/// A panic leaves no partial change under these mutexes, so a poisoned mutex is still usable.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
