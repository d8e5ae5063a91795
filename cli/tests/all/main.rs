//! All tests of the command, as one program.

#[path = "../bench.rs"]
mod bench;
#[path = "../common/mod.rs"]
mod common;
#[path = "../doctor.rs"]
mod doctor;
#[path = "../elect.rs"]
mod elect;
#[path = "../inspect.rs"]
mod inspect;
#[path = "../manual.rs"]
mod manual;
#[path = "../run.rs"]
mod run;
#[path = "../script.rs"]
mod script;
#[path = "../top.rs"]
mod top;
#[path = "../ui.rs"]
mod ui;
