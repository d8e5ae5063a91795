//! `leasehold top`: a live view in the terminal.
//!
//! `screen.rs` owns the terminal, `draw.rs` draws, and `view.rs` keeps what the user has chosen.
//! Requests for a popup or a release run in tasks, so that the keys still work if the server does
//! not reply.

mod draw;
mod screen;
mod view;

use std::{
    io::{self, IsTerminal},
    sync::Arc,
};

use crossterm::event::Event;
use leasehold::{Client, Holder};
use rustix::process::Signal;
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    task,
};

use self::{
    screen::Screen,
    view::{Act, View},
};
use crate::{
    args::{Server, Top},
    exit::{ABSENT, Exit, USAGE},
    force::Forcible,
    inspect::as_text,
    server,
    signals::{self, Signals},
    watch::Watch,
};

enum Found {
    Shown(String),
    Question(Arc<Forcible>),
    Message(String),
}

pub(crate) async fn top(server: &Server, top: &Top) -> Result<u8, Exit> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let remedy = "use `leasehold ls`, or `leasehold ui`";
        return Err(Exit::new(
            USAGE,
            format!("start `top`: this process has no terminal; {remedy}"),
        ));
    }
    let mut signals = Signals::catch(true)?;
    let client = server::connect_or_end(server, Client::builder(), &mut signals).await?;
    let watch = Watch::start(client.clone(), &top.watching.pattern, top.watching.interval);
    // `screen` restores the terminal when it is dropped, also after a panic.
    let mut screen = Screen::open()?;
    show(&mut screen, &client, watch, &mut signals).await
}

async fn show(
    screen: &mut Screen,
    client: &Client,
    mut watch: Watch,
    signals: &mut Signals,
) -> Result<u8, Exit> {
    let mut keys = screen::keys()?;
    let (sender, mut found) = unbounded_channel();
    let mut view = View::default();
    // The lock that the user is asked to release by force.
    let mut asked: Option<Arc<Forcible>> = None;
    loop {
        let sample = watch.last();
        screen.draw(|frame| draw::draw(frame, &sample, &mut view))?;
        let event = tokio::select! {
            signal = signals.fatal() => return Ok(signals::code(signal)),
            changed = watch.changed() => {
                changed?;
                continue;
            }
            Some(found) = found.recv() => {
                match found {
                    Found::Shown(text) => view.popup(text),
                    Found::Message(text) => view.message = Some(text),
                    Found::Question(held) => {
                        if view.ask(held.text()) {
                            asked = Some(held);
                        }
                    }
                }
                continue;
            }
            event = keys.recv() => event,
        };
        let Some(event) = event else {
            return Err(Exit::os("read", "terminal", &"the terminal was closed"));
        };
        let Event::Key(key) = event else { continue };
        match view.key(key, &sample) {
            None => {}
            Some(Act::Quit) => return Ok(0),
            Some(Act::Interrupt) => return Ok(signals::code(Signal::INT)),
            Some(Act::Show(name)) => {
                let client = client.clone();
                start(&sender, async move {
                    let found = client.inspect(&name).await?;
                    let is_free = || {
                        Exit::new(
                            ABSENT,
                            format!("show `{name}`: no client holds this name or waits for it"),
                        )
                    };
                    Ok(Found::Shown(as_text(&found.ok_or_else(is_free)?)))
                });
            }
            Some(Act::Ask(name)) => {
                let client = client.clone();
                start(&sender, async move {
                    Ok(Found::Question(Arc::new(Forcible::find(&client, name.as_str()).await?)))
                });
            }
            Some(Act::Force) => {
                let Some(held) = asked.take() else { continue };
                let watch = watch.clone();
                start(&sender, async move {
                    let (name, mut all) = (held.name(), vec![]);
                    let released = |holder: &Holder| {
                        watch.forced(name.clone(), holder.owner().as_str().to_owned());
                        all.push(holder.to_string());
                    };
                    held.release("top", released).await?;
                    let all = all.join(", ");
                    Ok(Found::Message(format!("released `{name}` by force, was held by {all}")))
                });
            }
        }
    }
}

/// Runs `work` in a task. A failure of `work` becomes a message.
fn start(
    results: &UnboundedSender<Found>,
    work: impl Future<Output = Result<Found, Exit>> + 'static + Send,
) {
    let results = results.clone();
    task::spawn(async move {
        let found = work.await.unwrap_or_else(|exit| Found::Message(exit.reason().to_owned()));
        // If `top` has ended, nobody needs the result, so the error is ignored.
        drop(results.send(found));
    });
}
