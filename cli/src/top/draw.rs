//! Draws `top`. This file reads no server and no terminal, so tests can compare whole screens.
//!
//! Other clients choose names and owners, so this file escapes them.

use std::time::UNIX_EPOCH;

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Cell, Clear, Paragraph, Row as Cells, Table, TableState, Wrap},
};

use super::view::View;
use crate::{
    exit::on_one_line,
    force::QUESTION,
    inspect::{seconds, short},
    watch::{
        Sample,
        table::{Event, Row},
    },
};

/// The number of lines of the list of events, including its border.
const EVENTS: u16 = 8;

const GOOD: Color = Color::Green;
const BAD: Color = Color::Red;
const ODD: Color = Color::Yellow;

pub(super) fn draw(frame: &mut Frame<'_>, sample: &Sample, view: &mut View) {
    let problems = problems(sample);
    let lines = u16::try_from(problems.len()).unwrap_or(u16::MAX).min(4);
    let [head, warnings, rows, events, foot] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(lines),
        Constraint::Min(4),
        Constraint::Length(EVENTS),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(header(sample)), head);
    frame.render_widget(Paragraph::new(problems), warnings);
    table(frame, rows, sample, view);
    frame.render_widget(changes(sample), events);
    frame.render_widget(footer(view), foot);
    popup(frame, view);
}

fn header(sample: &Sample) -> Vec<Line<'static>> {
    let tally = &sample.tally;
    let pass = match sample.pass {
        Some(took) => format!("{} keys, a pass took {}", tally.names, seconds(took)),
        None => format!("{} keys read, the first pass goes on", tally.names),
    };
    let bold = |text: String| Span::styled(text, Modifier::BOLD);
    let count = |title: &str, count: usize, color: Color| {
        let style = if count > 0 { Style::new().fg(color) } else { Style::new() };
        Span::styled(format!("  {title} {count}"), style.add_modifier(Modifier::BOLD))
    };
    let lost = usize::try_from(sample.lost).unwrap_or(usize::MAX);
    vec![
        Line::from(vec![
            bold("leasehold top".into()),
            format!("  {}  {pass}  sample {} ms", sample.server, sample.took.as_millis()).into(),
        ]),
        Line::from(vec![
            bold(format!("objects {}", tally.objects())),
            count("held", tally.held, GOOD),
            count("waiting", tally.waiting, ODD),
            bold(format!("  grants/s {:.1}", sample.rate())),
            count("lost", lost, BAD),
            count("odd", tally.odd, ODD),
        ]),
    ]
}

/// Returns the error of the last sample, if it failed, and the hazards of the server.
fn problems(sample: &Sample) -> Vec<Line<'static>> {
    let error = sample.error.iter().map(|error| format!("cannot read the server: {error}"));
    let hazards = sample.hazards.iter().map(|hazard| format!("hazard: {hazard}"));
    error.chain(hazards).map(|text| Line::styled(text, Style::new().fg(BAD))).collect()
}

fn table(frame: &mut Frame<'_>, area: Rect, sample: &Sample, view: &mut View) {
    let rows = view.rows(sample);
    let at = view.at(&rows);
    let columns = columns(area.width);
    let titles = Cells::new(columns.iter().map(|it| it.0)).style(Modifier::BOLD);
    let arrow = if view.is_reversed { "▲" } else { "▼" };
    let title =
        format!(" {} of {} by {} {arrow} ", rows.len(), sample.rows.len(), view.order.text());
    let count = rows.len();
    let lines = rows.into_iter().map(|row| Cells::new(columns.iter().map(|it| it.2(row))));
    let table = Table::new(lines, columns.iter().map(|it| it.1))
        .header(titles)
        .row_highlight_style(Modifier::REVERSED)
        .block(Block::bordered().title(title));
    let mut state = TableState::new().with_offset(view.offset.min(count)).with_selected(at);
    frame.render_stateful_widget(table, area, &mut state);
    view.offset = state.offset();
}

/// The title and the width of a column, and a function that returns its cell in a row.
type Column = (&'static str, Constraint, fn(&Row) -> Cell<'static>);

/// Returns the columns that fit a terminal of this width.
fn columns(width: u16) -> Vec<Column> {
    // The longest kind is `expirable semaphore`.
    let kind = if width >= 150 { 19 } else { 11 };
    let columns: [(u16, Column); 9] = [
        (0, ("NAME", Constraint::Fill(3), |row| Cell::new(row.name.to_string()))),
        (100, ("KIND", Constraint::Length(kind), |row| Cell::new(row.kind.clone()))),
        (0, ("HOLDER", Constraint::Length(14), |row| Cell::new(holder(row)))),
        (0, ("HELD", Constraint::Length(8), |row| Cell::new(held(row)))),
        (0, ("LEASE", Constraint::Length(7), |row| Cell::new(lease(row)))),
        (
            0,
            ("WAITERS", Constraint::Length(7), |row| {
                let waiters = if row.waiting > 0 { row.waiting.to_string() } else { String::new() };
                Cell::new(Span::styled(waiters, ODD))
            }),
        ),
        (
            100,
            ("WAITED", Constraint::Length(7), |row| {
                Cell::new(row.waited().map(short).unwrap_or_default())
            }),
        ),
        (
            100,
            ("GRANTS/s", Constraint::Length(8), |row| {
                Cell::new(if row.rate >= 0.05 { format!("{:.1}", row.rate) } else { String::new() })
            }),
        ),
        (0, ("ODD", Constraint::Fill(2), |row| Cell::new(Span::styled(odd(row), BAD)))),
    ];
    columns.into_iter().filter(|it| it.0 <= width).map(|it| it.1).collect()
}

fn holder(row: &Row) -> String {
    match row.holders.as_slice() {
        [] if row.error.is_some() => "unknown".to_owned(),
        [] if row.held == 0 => "free".to_owned(),
        [holder] if row.held == 1 => brief(&holder.owner),
        _ => format!("{} holders", row.held),
    }
}

/// Returns the start of an owner, and its number. A popup shows the whole owner.
fn brief(owner: &str) -> String {
    on_one_line(&match owner.split_once(':') {
        Some((client, number)) => {
            format!("{}…:{number}", client.chars().take(8).collect::<String>())
        }
        None => owner.to_owned(),
    })
}

/// Returns how long the object has been held. If the grant was not seen, the text starts with `>`,
/// because the hold is older.
fn held(row: &Row) -> String {
    let mark = if row.holders.iter().all(|it| it.is_exact) { "" } else { ">" };
    row.held_for().map(|held| format!("{mark}{}", short(held))).unwrap_or_default()
}

fn lease(row: &Row) -> String {
    match row.holders.first().map(|holder| holder.remaining) {
        Some(Some(left)) => short(left),
        Some(None) => "no end".into(),
        None => String::new(),
    }
}

fn odd(row: &Row) -> String {
    let odd = row.error.as_deref().into_iter().chain(row.odd.iter().copied());
    odd.collect::<Vec<_>>().join(", ")
}

fn changes(sample: &Sample) -> Paragraph<'static> {
    let last = sample.events.iter().rev().take(usize::from(EVENTS - 2));
    let lines: Vec<_> = last.map(|event| line(sample, event)).collect();
    Paragraph::new(lines).block(Block::bordered().title(" grants and losses, the last first "))
}

fn line(sample: &Sample, event: &Event) -> Line<'static> {
    let at = (sample.started + event.at).duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (hours, minutes, secs) = (at / 3_600 % 24, at / 60 % 60, at % 60);
    let color = match event.change.is_loss() {
        true => BAD,
        false => Color::Reset,
    };
    let held = event.held.map(|held| format!(" after {}", short(held))).unwrap_or_default();
    let text = format!(
        "{hours:02}:{minutes:02}:{secs:02}Z  {:<8}  {}  {}{held}",
        event.change.text(),
        event.name,
        on_one_line(&event.owner)
    );
    Line::styled(text, Style::new().fg(color))
}

fn footer(view: &View) -> Paragraph<'static> {
    if let Some(message) = &view.message {
        return Paragraph::new(message.clone()).style(Style::new().fg(ODD));
    }
    let filter = match (view.is_typing, view.filter.as_str()) {
        (true, filter) => format!("filter: {filter}█  Enter keeps it, Esc clears it"),
        (false, "") => "/ filter".to_owned(),
        (false, filter) => format!("filter: {filter} (Esc clears it)"),
    };
    let keys = "q quit  ↑↓ select  Enter show  s sort  r reverse  f release by force  ";
    Paragraph::new(if view.is_typing { filter } else { keys.to_owned() + &filter })
}

/// Draws the popup: the state of an object, or the question before a release by force.
fn popup(frame: &mut Frame<'_>, view: &View) {
    let Some(popup) = &view.popup else { return };
    let mut lines: Vec<_> = popup.text.lines().map(|line| Line::from(line.to_owned())).collect();
    let question = format!("{QUESTION} y, or any other key");
    let (title, color) = match popup.is_question {
        true => (" release by force ", BAD),
        false => (" any key closes ", Color::Reset),
    };
    let area = frame.area();
    let height = u16::try_from(lines.len()).unwrap_or(u16::MAX).saturating_add(4);
    let area = area.centered(
        Constraint::Length(area.width.saturating_sub(4).min(100)),
        Constraint::Length(height.min(area.height.saturating_sub(2))),
    );
    // The question stays visible below a long list.
    if popup.is_question {
        lines.truncate(usize::from(area.height.saturating_sub(4)));
        lines.push(Line::default());
        lines.push(Line::styled(question, Style::new().fg(BAD).add_modifier(Modifier::BOLD)));
    }
    let block = Block::bordered().title(title).border_style(Style::new().fg(color));
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).wrap(Wrap { trim: false }).block(block), area);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use leasehold::Name;
    use ratatui::{Terminal, backend::TestBackend};

    use super::*;
    use crate::watch::table::{Holder, Seen, Table, Waiting};

    const OWNER: &str = "8c6d6a35-0c0a-4a4f-9d1e-5a1c5e3f2b10:42";
    const OTHER: &str = "2f1cbd9e-3e5c-4d8e-9b4f-5a52a2b36b0c:17";

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn held(name: &str, owner: &str, left: Option<u64>) -> Seen {
        Seen {
            kind: Some("lock".into()),
            holders: vec![Holder { owner: owner.into(), remaining: left.map(secs), process: None }],
            ..Seen::absent(Name::new(name).unwrap())
        }
    }

    /// Returns a sample of a lock that lost its holder, and of locks in several states.
    fn sample() -> Sample {
        let mut table = Table::default();
        let waits = Waiting { owner: OTHER.into(), waited: Some(secs(75)), is_overdue: false };
        let busy = Seen { waiters: vec![waits], waiting: 1, ..held("orders/42", OWNER, Some(25)) };
        let endless = Seen {
            odd: vec!["hold never expires"],
            ..held("legacy\u{1b}[31m/import", OWNER, None)
        };
        let error = Some("WRONGTYPE".to_owned());
        let broken = Seen { error, ..Seen::absent(Name::new("broken").unwrap()) };
        for (at, left) in [(0, 9), (8, 1)] {
            let all =
                [busy.clone(), endless.clone(), broken.clone(), held("jobs", OTHER, Some(left))];
            all.iter().for_each(|seen| {
                table.update(seen, secs(at));
                table.count(seen);
            });
            table.end_pass();
        }
        table.update(&held("jobs", OWNER, Some(30)), secs(10));
        table.end_round(secs(10));
        Sample {
            started: SystemTime::UNIX_EPOCH + secs(50_000),
            now: secs(10),
            took: Duration::from_millis(12),
            rows: table.rows().cloned().collect(),
            events: table.events().cloned().collect(),
            history: table.history().cloned().collect(),
            tally: table.tally().clone(),
            pass: Some(secs(2)),
            lost: table.lost(),
            hazards: vec!["10.0.0.1:6379: the server may evict locks; set noeviction".into()],
            server: "10.0.0.1:6379".into(),
            error: None,
        }
    }

    fn screen(width: u16, view: &mut View, sample: &Sample) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
        terminal.draw(|frame| draw(frame, sample, view)).unwrap();
        let text = terminal.backend().to_string();
        text.lines().map(|line| line.trim_matches('"').trim_end().to_owned() + "\n").collect()
    }

    /// Compares a drawn screen with the text of the whole expected screen.
    #[track_caller]
    fn is(drawn: &str, expected: &str) {
        assert!(drawn == expected, "drawn:\n{drawn}\nexpected:\n{expected}");
    }

    #[test]
    fn screen_shows_holds_waiters_rates_losses_and_hazards() {
        is(&screen(120, &mut View::default(), &sample()), include_str!("screens/wide.txt"));
    }

    #[test]
    fn narrow_screen_shows_fewer_columns() {
        let mut sample = sample();
        sample.error = Some("Redis is unreachable".into());
        is(&screen(80, &mut View::default(), &sample), include_str!("screens/narrow.txt"));
    }

    #[test]
    fn screen_asks_for_confirmation_before_a_forced_release() {
        let mut view = View { filter: "orders".into(), ..View::default() };
        view.ask(format!("orders/42: lock\n  held by     {OWNER} ×1, lease ends in 25.0 s\n"));
        is(&screen(120, &mut view, &sample()), include_str!("screens/question.txt"));
        let long = "  waiter\n".repeat(99);
        view.popup = None;
        view.ask(format!("orders/42: lock\n{long}"));
        assert!(screen(120, &mut view, &sample()).contains("y, or any other key"));
    }

    #[test]
    fn control_and_invisible_characters_do_not_reach_the_terminal() {
        let mut sample = sample();
        let name = Name::new("odd").unwrap();
        let odd = Event { owner: "x\u{202e}y".into(), name, ..sample.events[0].clone() };
        sample.events.push(odd);
        let holders = sample.rows.iter_mut().flat_map(|row| &mut row.holders);
        holders.for_each(|it| it.owner.insert(0, '\u{202e}'));
        let drawn = screen(120, &mut View::default(), &sample);
        assert!(!drawn.contains(['\u{1b}', '\u{202e}']) && drawn.contains("legacy"), "{drawn}");
        assert!(drawn.contains(r"x\u{202e}y"), "{drawn}");
    }
}
