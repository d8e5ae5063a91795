//! The terminal: its modes, and its keys.

use std::{
    io::{self, Stdout, stdout},
    panic, thread,
};

use crossterm::{
    cursor::Show,
    event::{Event, read},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use ratatui::{Frame, Terminal, backend::CrosstermBackend};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::exit::Exit;

/// The terminal in raw mode, with an alternate screen. The drop restores the terminal: at the end,
/// after a signal, and after an error. After a panic, a hook restores the terminal before the panic
/// message is printed, because the alternate screen would lose the message.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    pub(super) fn open() -> Result<Self, Exit> {
        let opened = || {
            let screen = Self(Terminal::new(CrosstermBackend::new(stdout()))?);
            let hook = panic::take_hook();
            panic::set_hook(Box::new(move |panic| {
                restore();
                hook(panic);
            }));
            enable_raw_mode()?;
            execute!(stdout(), EnterAlternateScreen)?;
            Ok(screen)
        };
        opened().map_err(failed)
    }

    pub(super) fn draw(&mut self, draws: impl FnOnce(&mut Frame<'_>)) -> Result<(), Exit> {
        self.0.draw(draws).map(drop).map_err(failed)
    }
}

fn failed(error: io::Error) -> Exit {
    Exit::os("draw on", "terminal", &error)
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn restore() {
    // Both steps are tried, even if the terminal is gone.
    drop(execute!(stdout(), LeaveAlternateScreen, Show));
    drop(disable_raw_mode());
}

/// Returns the events of the terminal, which a thread reads. The thread ends with the process,
/// because nothing interrupts its read.
pub(super) fn keys() -> Result<UnboundedReceiver<Event>, Exit> {
    let (sender, receiver) = unbounded_channel();
    let reads = move || while read().is_ok_and(|event| sender.send(event).is_ok()) {};
    let started = thread::Builder::new().name("keys".into()).spawn(reads);
    started.map_err(|error| Exit::os("start", "thread", &error))?;
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        process::{Command, Stdio},
    };

    use super::*;

    const CHILD: &str = "LEASEHOLD_TEST_SCREEN";

    /// Runs this test again in a terminal of the program `script`. The second run panics.
    #[test]
    fn panic_restores_the_terminal_and_then_prints_its_message() {
        if env::var_os(CHILD).is_some() {
            let _screen = Screen::open().unwrap();
            panic!("the reason");
        }
        let program = env::current_exe().unwrap();
        let test = "top::screen::tests::panic_restores_the_terminal_and_then_prints_its_message";
        let line = format!(
            "stty -g; {} --exact {test} --nocapture; echo; stty -g",
            program.to_str().unwrap()
        );
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env(CHILD, "1").env("SHELL", "/bin/sh");
        let output = script.stdin(Stdio::null()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let left = text.find("\u{1b}[?1049l").expect("the screen is left");
        let reason = text.find("the reason").expect("there is a message");
        assert!(left < reason, "{text:?}");
        // The third field has the speed, which a pseudo-terminal does not keep.
        let modes = text.lines().filter(|line| line.matches(':').count() > 20);
        let modes: Vec<_> = modes.map(|it| it.split(':').take(4).collect::<Vec<_>>()).collect();
        let [before, after] = &modes[..] else { panic!("{text:?}") };
        assert_eq!((before[0], before[1], before[3]), (after[0], after[1], after[3]));
    }
}
