//! The crate rsmq_async. A received message is hidden for a time, and is deleted when the work is
//! done.

use std::{collections::HashSet, sync::Arc};

use rsmq_async::{Rsmq, RsmqConnection, RsmqError, RsmqOptions};
use tokio::sync::Mutex;

use super::{Library, Outcome};

#[derive(Clone, Debug)]
pub(crate) struct Messages {
    rsmq: Rsmq,
    /// The queues that were created.
    created: Arc<Mutex<HashSet<String>>>,
}

#[derive(Debug)]
pub(crate) struct Received {
    queue: String,
    id: String,
}

impl Messages {
    async fn create(&self, name: &str) -> Outcome<()> {
        let mut created = self.created.lock().await;
        if created.insert(name.to_owned()) {
            match self.rsmq.clone().create_queue(name, None, None, None).await {
                Ok(()) | Err(RsmqError::QueueExists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

impl Library for Messages {
    type Held = Received;

    async fn connect(url: &str) -> Outcome<Self> {
        let (host, port) = url.rsplit_once(':').ok_or("a URL has a port")?;
        let host = host.trim_start_matches("redis://").to_owned();
        let options = RsmqOptions { host, port: port.parse()?, ..RsmqOptions::default() };
        Ok(Self { rsmq: Rsmq::new(options).await?, created: Arc::default() })
    }

    async fn acquire(&self, name: &str) -> Outcome<Received> {
        self.create(name).await?;
        let mut rsmq = self.rsmq.clone();
        rsmq.send_message(name, "element", None).await?;
        // rsmq first reads the server's time. Before its second request, other tasks may receive
        // all older messages. Then only messages with a later time are left, and rsmq returns none.
        // So this loop tries again.
        loop {
            if let Some(message) = rsmq.receive_message::<String>(name, None).await? {
                return Ok(Received { queue: name.to_owned(), id: message.id });
            }
        }
    }

    async fn release(&self, held: Received) -> Outcome<()> {
        match self.rsmq.clone().delete_message(&held.queue, &held.id).await? {
            true => Ok(()),
            false => Err("the message was gone".into()),
        }
    }
}
