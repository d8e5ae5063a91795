//! The figures, for programs.

use serde_json::{Map, Value, json};

use super::{
    board::{Better, Board, Case, Cell, LIMIT, OURS, RIVALS},
    machine::Machine,
    verdict::verdict,
};

pub(super) fn results(board: &Board, machine: &Machine, note: &str) -> String {
    let cases: Vec<_> = board.cases.iter().map(one).collect();
    let machine: Map<_, _> =
        machine.facts.iter().map(|(what, value)| (what.clone(), json!(value))).collect();
    let all = json!({"machine": machine, "note": note, "results": cases});
    format!("{all:#}\n")
}

fn one(case: &Case) -> Value {
    let rivals: Map<_, _> = RIVALS
        .into_iter()
        .filter(|name| case.cells.contains_key(name))
        .map(|name| (name.to_owned(), json!(case.value(name))))
        .collect();
    json!({
        "case": format!("{}: {}", case.group, case.name),
        "unit": case.unit,
        "better": match case.better { Better::Less => "less", Better::More => "more" },
        "ours": case.value(OURS),
        "limit": case.value(LIMIT),
        "rivals": rivals,
        "rounds": rounds(case),
        "left_out": reasons(case),
        "verdict": verdict(case).replace("**", ""),
    })
}

fn rounds(case: &Case) -> Map<String, Value> {
    let measured = case.cells.iter().filter_map(|(column, cell)| match cell {
        Cell::Measured(values) => Some(((*column).to_owned(), json!(values))),
        _ => None,
    });
    measured.collect()
}

fn reasons(case: &Case) -> Map<String, Value> {
    let left_out = case.cells.iter().filter_map(|(column, cell)| match cell {
        Cell::Absent(why) | Cell::Failed(why) => Some(((*column).to_owned(), json!(why))),
        Cell::Measured(_) => None,
    });
    left_out.collect()
}
