//! Scripts run in Lua 5.1, as in Redis.
//!
//! Each thread has one Lua machine. The machine keeps compiled scripts, because many runs use the
//! same few scripts. While a script runs, the machine owns the server, so that the script can call
//! the server.

use std::{cell::RefCell, collections::BTreeMap, mem, rc::Rc};

use mlua::{
    Error, Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value, chunk::ChunkMode,
};
use sha1_smol::Sha1;

use super::{
    core::{Core, InScript, Script, spec::Call},
    reply::Reply,
    values::{self, Word},
};

/// Compiles a script. Returns the error if the compilation fails.
pub(super) fn compile(script: &Script) -> Result<(), Reply> {
    MACHINE.with(|machine| machine.function(script)).map(drop)
}

/// Runs a script. Even if the script fails, its writes stay.
pub(super) fn run(
    core: &mut Core,
    call: &Call<'_>,
    script: &Script,
    keys: &[&[u8]],
    arguments: &[&[u8]],
) -> Reply {
    MACHINE.with(|machine| {
        let function = match machine.function(script) {
            Ok(function) => function,
            Err(refused) => return refused,
        };
        let done = machine.run(core, call, &function, keys, arguments);
        match done {
            Ok(Ok(reply)) => reply,
            Ok(Err(failure)) => failure.reply(&script.hash),
            Err(error) => Reply::error(format!("ERR Error running script: {error}")),
        }
    })
}

thread_local! {
    static MACHINE: Machine = Machine::new().expect("the Lua machine starts");
}

/// The name that Lua uses for the text of every script.
const SOURCE: &str = "@user_script";

struct Machine {
    lua: Lua,
    globals: Table,
    environment: Table,
    runner: Function,
    compiled: RefCell<BTreeMap<String, Function>>,
    running: Rc<RefCell<Option<Running>>>,
    /// An empty server, which takes the place of the real server while a script runs.
    hollow: RefCell<Option<Core>>,
}

/// The server, and the state of the running script.
struct Running {
    core: Core,
    script: InScript,
}

/// Why a script ended early.
struct Failure {
    words: String,
    line: Option<i64>,
}

impl Failure {
    fn reply(self, hash: &str) -> Reply {
        let Self { words, line } = self;
        Reply::error(match line {
            Some(line) => format!("{words} script: {hash}, on {SOURCE}:{line}."),
            None => words,
        })
    }
}

impl Machine {
    fn new() -> Result<Self, Error> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH;
        let lua = Lua::new_with(libraries, LuaOptions::default())?;
        let running = Rc::new(RefCell::new(None));
        let [one, other] = [Rc::clone(&running), Rc::clone(&running)];
        let call =
            lua.create_function(move |lua, words: MultiValue| match called(&one, &words)? {
                Reply::Error(refused) => Err(Error::runtime(refused)),
                reply => values::value(lua, &reply),
            })?;
        let attempt = lua.create_function(move |lua, words: MultiValue| {
            values::value(lua, &called(&other, &words)?)
        })?;
        let located = lua.create_function(located)?;
        let words = lua.create_function(|lua, problem| match refused(&problem) {
            Some(words) => lua.create_string(words).map(Value::String),
            None => Ok(problem),
        })?;
        let sha1hex = lua.create_function(|_, text: Option<LuaString>| {
            let text = text.map(|text| text.as_bytes().to_vec()).unwrap_or_default();
            Ok(Sha1::from(text).digest().to_string())
        })?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
        let (globals, environment, runner) =
            prelude.call((call, attempt, located, words, sha1hex))?;
        let (compiled, hollow) = (RefCell::default(), RefCell::default());
        Ok(Self { lua, globals, environment, runner, compiled, running, hollow })
    }

    /// Returns the script as a compiled function.
    fn function(&self, script: &Script) -> Result<Function, Reply> {
        if let Some(function) = self.compiled.borrow().get(&script.hash) {
            return Ok(function.clone());
        }
        let chunk = self.lua.load(script.text.as_slice()).set_name(SOURCE);
        let chunk = chunk.set_mode(ChunkMode::Text).set_environment(self.environment.clone());
        let function = chunk.into_function().map_err(|error| {
            let error = error.to_string();
            let why = error.strip_prefix("syntax error: ").unwrap_or(&error);
            Reply::error(format!("ERR Error compiling script (new function): {why}"))
        })?;
        self.compiled.borrow_mut().insert(script.hash.clone(), function.clone());
        Ok(function)
    }

    fn run(
        &self,
        core: &mut Core,
        call: &Call<'_>,
        function: &Function,
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> Result<Result<Reply, Failure>, Error> {
        self.globals.raw_set("KEYS", self.texts(keys)?)?;
        self.globals.raw_set("ARGV", self.texts(arguments)?)?;
        let script = core.begin_script(call);
        let hollow = self.hollow.take().unwrap_or_else(|| Core::new(0, core.table));
        let lent = mem::replace(core, hollow);
        *self.running.borrow_mut() = Some(Running { core: lent, script });
        let ended = self.runner.call::<(bool, Value)>(function);
        if let Some(running) = self.running.take() {
            self.hollow.replace(Some(mem::replace(core, running.core)));
        }
        let (done, value) = ended?;
        Ok(if done { Ok(values::reply(&value)) } else { Err(failure(&value)) })
    }

    fn texts(&self, texts: &[&[u8]]) -> Result<Table, Error> {
        let table = self.lua.create_table_with_capacity(texts.len(), 0)?;
        for (place, text) in texts.iter().enumerate() {
            table.raw_set(place + 1, self.lua.create_string(text)?)?;
        }
        Ok(table)
    }
}

/// Executes a command of the running script.
fn called(running: &RefCell<Option<Running>>, words: &MultiValue) -> Result<Reply, Error> {
    let mut running = running.borrow_mut();
    let running = running.as_mut().ok_or_else(|| Error::runtime("no script runs"))?;
    Ok(match words.iter().map(Word::of).collect::<Option<Vec<_>>>() {
        Some(words) if words.is_empty() => Reply::error(NO_WORDS),
        Some(words) => {
            let words: Vec<_> = words.iter().map(Word::bytes).collect();
            running.core.serve_script(&mut running.script, &words)
        }
        None => Reply::error(ODD_WORDS),
    })
}

/// Returns the error text, if a command of the script failed with an error.
fn refused(problem: &Value) -> Option<String> {
    match problem {
        Value::Table(table) => match table.raw_get("err") {
            Ok(Value::String(words)) => Some(words.to_string_lossy()),
            _ => None,
        },
        Value::Error(error) => match &**error {
            Error::CallbackError { cause, .. } => match &**cause {
                Error::RuntimeError(words) => Some(words.clone()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

const NO_WORDS: &str = "ERR Please specify at least one argument for this redis lib call";
const ODD_WORDS: &str = "ERR Lua redis lib command arguments must be strings or integers";

/// Adds the position in the script to an error, as Redis's error handler does.
fn located(lua: &Lua, error: Value) -> Result<Table, Error> {
    let table = match error {
        Value::Table(table) => table,
        other => {
            let words = refused(&other).unwrap_or_else(|| format!("ERR {}", values::shown(&other)));
            let table = lua.create_table()?;
            table.raw_set("err", words)?;
            table
        }
    };
    for level in 0.. {
        let seen = lua.inspect_stack(level, |frame| {
            let own = frame.source().source.is_some_and(|source| source == SOURCE);
            own.then(|| frame.current_line())
        });
        match seen {
            None => break,
            Some(None) => {}
            Some(Some(line)) => {
                table.raw_set("line", line)?;
                break;
            }
        }
    }
    Ok(table)
}

fn failure(error: &Value) -> Failure {
    let Value::Table(table) = error else {
        return Failure { words: format!("ERR {}", values::shown(error)), line: None };
    };
    let words = table.raw_get("err").map(|err: Value| values::shown(&err)).unwrap_or_default();
    Failure { words, line: table.raw_get("line").unwrap_or(None) }
}
