//! Reads the output of a test program.

/// The results of a suite on one server.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SuiteResults {
    pub(crate) passed: usize,
    pub(crate) failed: Vec<String>,
    /// The tests that need an ability which the server lacks: the name of each test, and the
    /// ability.
    pub(crate) unsupported: Vec<(String, String)>,
    /// Whether the suite ran to its end.
    ended: bool,
}

impl SuiteResults {
    pub(crate) fn read(output: &str) -> Self {
        let mut results = Self { ended: output.contains("\ntest result: "), ..Self::default() };
        for line in output.lines() {
            let Some((name, verdict)) = verdict(line) else { continue };
            match verdict {
                "ok" => results.passed += 1,
                "FAILED" => results.sort_in(name, output),
                _ => {}
            }
        }
        results
    }

    fn sort_in(&mut self, name: &str, output: &str) {
        match reason(name, output) {
            Some(reason) => self.unsupported.push((name.to_owned(), reason.to_owned())),
            None => self.failed.push(name.to_owned()),
        }
    }

    /// Whether the suite ran to its end without a failure.
    pub(crate) fn is_well(&self) -> bool {
        self.ended && self.failed.is_empty()
    }

    /// The results as the text of a table cell.
    pub(crate) fn cell(&self) -> String {
        let counts = [(self.failed.len(), "failed"), (self.unsupported.len(), "not supported")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let mut cell = self.passed.to_string();
        counts.for_each(|(count, what)| cell += &format!(", {count} {what}"));
        match self.ended {
            true => cell,
            false => format!("{cell}, ended early"),
        }
    }
}

/// Reads a line such as `test a_name ... ok`.
fn verdict(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("test ")?.split_once(" ... ")
}

/// If the test failed because of a missing ability, returns this ability.
fn reason<'a>(name: &str, output: &'a str) -> Option<&'a str> {
    let (_, from) = output.split_once(&format!("\n---- {name} stdout ----\n"))?;
    let own_output = from.split_once("\n---- ").map_or(from, |(own_output, _)| own_output);
    let (_, words) = own_output.split_once("not supported by `")?;
    let (_, reason) = words.lines().next()?.split_once("`: ")?;
    Some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "\nrunning 4 tests\ntest one ... ok\ntest two ... FAILED\n\
        test three ... FAILED\ntest four ... ignored\n\nfailures:\n\n---- two stdout ----\n\n\
        thread 'two' panicked at x.rs:1:1:\nno\n\n---- three stdout ----\n\n\
        thread 'three' panicked at x.rs:2:2:\nnot supported by `Redis server v=6.2.14`: TLS\nnote\n\n\
        \n\nfailures:\n    two\n    three\n\ntest result: FAILED. 1 passed; 2 failed\n";

    #[test]
    fn test_of_a_missing_feature_is_counted_separately() {
        let results = SuiteResults::read(OUTPUT);
        assert_eq!(results.failed, ["two"]);
        assert_eq!(results.unsupported, [("three".to_owned(), "TLS".to_owned())]);
        assert_eq!(results.cell(), "1, 1 failed, 1 not supported");
        assert!(!results.is_well());
    }

    #[test]
    fn unfinished_suite_is_reported() {
        let early = SuiteResults::read("");
        assert_eq!((early.cell().as_str(), early.is_well()), ("0, ended early", false));
        let whole = SuiteResults::read("test one ... ok\n\ntest result: ok. 1 passed");
        assert_eq!((whole.cell().as_str(), whole.is_well()), ("1", true));
    }
}
