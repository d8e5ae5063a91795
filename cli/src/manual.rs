//! `leasehold completions` and `leasehold man`.

use std::{fs, io, path::Path};

use clap::CommandFactory;

use crate::{
    args::{Cli, Completions, Man},
    exit::Exit,
    inspect::print,
};

pub(crate) fn completions(completions: &Completions) -> Result<u8, Exit> {
    let mut script = vec![];
    clap_complete::generate(completions.shell, &mut Cli::command(), "leasehold", &mut script);
    print(&String::from_utf8_lossy(&script))?;
    Ok(0)
}

/// Writes `leasehold.1`, and a page for each subcommand. Creates the folder if it is missing.
pub(crate) fn man(man: &Man) -> Result<u8, Exit> {
    let written = write(&man.folder);
    written.map_err(|error| Exit::os("write", &man.folder.display().to_string(), &error))?;
    Ok(0)
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command().disable_help_subcommand(true), folder)
}
