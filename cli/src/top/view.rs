//! What the user of `top` has chosen: the order, the filter, the row, an open popup. Pure.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use leasehold::Name;

use crate::watch::{
    Sample,
    table::{Order, Row},
};

/// How many rows a page key moves.
const PAGE: usize = 10;

#[derive(Debug)]
pub(super) struct View {
    pub(super) order: Order,
    pub(super) is_reversed: bool,
    pub(super) filter: String,
    /// Whether the user types the filter, so that letters are not commands.
    pub(super) is_typing: bool,
    pub(super) selected: Option<Name>,
    /// The first row that is drawn.
    pub(super) offset: usize,
    pub(super) popup: Option<Popup>,
    pub(super) message: Option<String>,
}

#[derive(Debug)]
pub(super) struct Popup {
    pub(super) text: String,
    /// Whether the popup asks to release a lock by force.
    pub(super) is_question: bool,
}

/// What a key requests.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Act {
    Quit,
    Interrupt,
    Show(Name),
    Ask(Name),
    Force,
}

impl Default for View {
    fn default() -> Self {
        Self {
            order: Order::Trouble,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            selected: None,
            offset: 0,
            popup: None,
            message: None,
        }
    }
}

impl View {
    /// Returns the rows that pass the filter, in their order.
    pub(super) fn rows<'a>(&self, sample: &'a Sample) -> Vec<&'a Row> {
        let mut rows: Vec<_> = sample.rows.iter().filter(|row| self.passes(row)).collect();
        self.order.sort(&mut rows);
        if self.is_reversed {
            rows.reverse();
        }
        rows
    }

    fn passes(&self, row: &Row) -> bool {
        let has = |text: &str| text.to_lowercase().contains(&self.filter.to_lowercase());
        has(row.name.as_str()) || has(&row.kind) || row.holders.iter().any(|it| has(&it.owner))
    }

    pub(super) fn popup(&mut self, text: String) {
        self.popup = Some(Popup { text, is_question: false });
    }

    /// Asks a question, and returns true. If another popup is open, asks nothing and returns false,
    /// because the next key of the user is for that popup.
    pub(super) fn ask(&mut self, text: String) -> bool {
        let is_first = self.popup.is_none();
        self.popup.get_or_insert(Popup { text, is_question: true });
        is_first
    }

    pub(super) fn key(&mut self, key: KeyEvent, sample: &Sample) -> Option<Act> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        self.message = None;
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return Some(Act::Interrupt);
        }
        if let Some(popup) = self.popup.take() {
            // Any key except `y` means no.
            let is_yes = popup.is_question && key.code == KeyCode::Char('y');
            return is_yes.then_some(Act::Force);
        }
        if self.is_typing {
            self.type_filter(key.code);
            return None;
        }
        match key.code {
            KeyCode::Char('q') => return Some(Act::Quit),
            KeyCode::Char('s') => self.next_order(),
            KeyCode::Char('r') => self.is_reversed = !self.is_reversed,
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('f') => return self.chosen(sample).map(Act::Ask),
            KeyCode::Enter => return self.chosen(sample).map(Act::Show),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Up | KeyCode::Char('k') => self.select(sample, |at| at.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(sample, |at| at + 1),
            KeyCode::PageUp => self.select(sample, |at| at.saturating_sub(PAGE)),
            KeyCode::PageDown => self.select(sample, |at| at + PAGE),
            KeyCode::Home => self.select(sample, |_| 0),
            KeyCode::End => self.select(sample, |_| usize::MAX),
            _ => {}
        }
        None
    }

    fn type_filter(&mut self, code: KeyCode) {
        match code {
            KeyCode::Char(letter) => self.filter.push(letter),
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Enter => self.is_typing = false,
            KeyCode::Esc => {
                self.filter.clear();
                self.is_typing = false;
            }
            _ => {}
        }
    }

    fn next_order(&mut self) {
        let at = Order::ALL.iter().position(|it| *it == self.order).unwrap_or(0);
        self.order = Order::ALL[(at + 1) % Order::ALL.len()];
    }

    /// Returns the name of the selected row, even if the row has meanwhile disappeared.
    fn chosen(&self, sample: &Sample) -> Option<Name> {
        let first = || self.rows(sample).first().map(|row| row.name.clone());
        self.selected.clone().or_else(first)
    }

    /// Selects another row. If the selected row has disappeared, selects the first one.
    fn select(&mut self, sample: &Sample, to: impl FnOnce(usize) -> usize) {
        let rows = self.rows(sample);
        let at = self.at(&rows).map_or(0, to).min(rows.len().saturating_sub(1));
        self.selected = rows.get(at).map(|row| row.name.clone());
    }

    /// Returns the index of the selected row. A row stays selected when it moves. Until the user
    /// selects a row, the first row is selected.
    pub(super) fn at(&self, rows: &[&Row]) -> Option<usize> {
        let is_selected = |row: &&Row| self.selected.as_ref().is_none_or(|it| *it == row.name);
        rows.iter().position(is_selected)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::watch::table::{Holder, Seen, Table, Tally};

    fn sample() -> Sample {
        let mut table = Table::default();
        for (name, owner, waiting) in [("a", "x:1", 0), ("b", "y:1", 3), ("c", "x:2", 1)] {
            let seen = Seen {
                kind: Some("lock".into()),
                holders: vec![Holder { owner: owner.into(), ..Holder::default() }],
                waiting,
                ..Seen::absent(Name::new(name).unwrap())
            };
            table.update(&seen, Duration::ZERO);
        }
        Sample {
            started: SystemTime::UNIX_EPOCH,
            now: Duration::ZERO,
            took: Duration::ZERO,
            rows: table.rows().cloned().collect(),
            events: vec![],
            history: vec![],
            tally: Tally::default(),
            pass: None,
            lost: 0,
            hazards: vec![],
            server: String::new(),
            error: None,
        }
    }

    fn press(view: &mut View, keys: &str) -> Option<Act> {
        let mut act = None;
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                '↓' => KeyCode::Down,
                letter => KeyCode::Char(letter),
            };
            act = view.key(KeyEvent::new(code, KeyModifiers::NONE), &sample());
        }
        act
    }

    fn names(view: &View) -> String {
        view.rows(&sample()).iter().map(|row| row.name.as_str()).collect()
    }

    #[test]
    fn rows_are_sorted_reversed_and_filtered() {
        let mut view = View::default();
        assert_eq!(names(&view), "bca", "the most waiters first");
        press(&mut view, "ssss");
        assert_eq!((view.order, names(&view)), (Order::Name, "abc".into()));
        press(&mut view, "r");
        assert_eq!(names(&view), "cba");
        press(&mut view, "/X:q\u{1b}");
        assert_eq!(names(&view), "cba", "Esc clears the filter");
        press(&mut view, "/X:\n");
        assert_eq!(names(&view), "ca", "by owner, in any case");
    }

    #[test]
    fn only_the_y_key_confirms_a_forced_release() {
        let mut view = View::default();
        let ask = |name: &str| Some(Act::Ask(Name::new(name).unwrap()));
        assert_eq!(press(&mut view, "f"), ask("b"), "the first row is selected");
        assert_eq!(press(&mut view, "\n"), Some(Act::Show(Name::new("b").unwrap())));
        assert_eq!(press(&mut view, "↓f"), ask("c"));
        for (key, act) in [("y", Some(Act::Force)), ("\n", None), ("q", None), ("Y", None)] {
            assert!(view.ask("c: lock".into()));
            assert!(!view.ask("b: lock".into()), "the key is for the first question");
            assert_eq!(view.popup.as_ref().unwrap().text, "c: lock");
            assert_eq!(press(&mut view, key), act, "{key:?}");
            assert!(view.popup.is_none());
        }
        view.popup("c: lock".into());
        assert_eq!(press(&mut view, "y"), None, "it was no question");
        assert_eq!(press(&mut view, "q"), Some(Act::Quit));
    }

    #[test]
    fn selection_stays_on_its_row_when_the_rows_move() {
        let mut view = View::default();
        assert_eq!(view.at(&view.rows(&sample())), Some(0));
        press(&mut view, "↓");
        assert_eq!(view.at(&view.rows(&sample())), Some(1));
        press(&mut view, "ssss");
        assert_eq!(view.at(&view.rows(&sample())), Some(2), "`c` is the last by name");
    }
}
