//! The two pipes: numbered commands go down one, answers come up the other in any order.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde_json::{Map, Value};

use crate::answer::{Answer, whole};

/// The connection to one process, shared by all its threads' handles.
#[derive(Debug)]
pub(crate) struct Lines {
    commands: Mutex<ChildStdin>,
    waiting: Arc<Mutex<Waiting>>,
}

#[derive(Debug, Default)]
struct Waiting {
    last_id: i64,
    /// Gone once the process has closed its side: then nothing is ever answered again.
    ended: bool,
    answers: HashMap<i64, Sender<Answer>>,
}

impl Lines {
    /// Reads the first line, and starts to listen for the answers after it.
    ///
    /// `None` if it ended without a word.
    pub(crate) fn open(commands: ChildStdin, answers: ChildStdout) -> Option<(Value, Self)> {
        let mut answers = BufReader::new(answers).lines();
        let ready = parse(&answers.next()?.ok()?);

        let waiting = Arc::new(Mutex::new(Waiting::default()));
        let lines = Self { commands: Mutex::new(commands), waiting: Arc::clone(&waiting) };
        thread::spawn(move || {
            for line in answers.map_while(Result::ok) {
                let line = parse(&line);
                let receiver = lock(&waiting).answers.remove(&whole(&line["id"]));
                // Nobody may want the answer any more.
                _ = receiver.map(|receiver| receiver.send(Answer::read(&line)));
            }
            let mut waiting = lock(&waiting);
            waiting.ended = true;
            waiting.answers.clear();
        });
        Some((ready, lines))
    }

    /// Sends a command. The channel is closed without an answer if the process ends first.
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
        // A pipe that broke closes the other one as well, and that end is noticed above.
        _ = writeln!(lock(&self.commands), "{line}");
        receiver
    }
}

fn parse(line: &str) -> Value {
    serde_json::from_str(line).unwrap_or_else(|e| panic!("the process said `{line}`: {e}"))
}

/// A panic elsewhere leaves nothing half done under these locks.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
