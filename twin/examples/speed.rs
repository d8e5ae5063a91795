//! The speed of the simulated server: `cargo run -p leasehold-twin --example speed`, with or
//! without `--release`.

use std::fs;
use std::path::Path;

use leasehold_twin::Twin;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

const COMMANDS: u32 = 100_000;
const SCRIPTS: u32 = 30_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime can be built").block_on(async {
        let twin = Twin::new(7);
        let mut stream = twin.connect().await.expect("the twin accepts connections");
        let increment = command(&["INCR", "n"]);
        measured("commands in turn", COMMANDS, async {
            for _ in 0..COMMANDS {
                ask(&mut stream, &increment).await;
            }
        })
        .await;
        let arguments = ["owner:1", "30000", "", "", "5"];
        let acquire = scripted(&mut stream, "acquire", &["door", "queue"], &arguments).await;
        measured("scripts in turn", SCRIPTS, async {
            for _ in 0..SCRIPTS {
                ask(&mut stream, &acquire).await;
            }
        })
        .await;
    });
}

async fn measured(what: &str, count: u32, work: impl Future<Output = ()>) {
    let started = tokio::time::Instant::now();
    work.await;
    println!("{what}: {:.0} a second", f64::from(count) / started.elapsed().as_secs_f64());
}

async fn ask(stream: &mut DuplexStream, command: &[u8]) -> String {
    stream.write_all(command).await.expect("the twin reads the command");
    let mut reply = [0; 512];
    let length = stream.read(&mut reply).await.expect("the twin replies");
    let reply = String::from_utf8_lossy(&reply[..length]).into_owned();
    assert!(!reply.starts_with('-'), "{reply}");
    reply
}

/// Loads a script of the store, and returns a command that calls the script.
async fn scripted(
    stream: &mut DuplexStream,
    name: &str,
    keys: &[&str],
    arguments: &[&str],
) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../src/store/redis/kinds/lock");
    let text = fs::read_to_string(folder.join(format!("{name}.lua"))).expect("the script exists");
    let hash = ask(stream, &command(&["SCRIPT", "LOAD", &text])).await;
    let (count, hash) = (keys.len().to_string(), hash.lines().nth(1).unwrap_or_default());
    command(&[&["EVALSHA", hash, &count], keys, arguments].concat())
}

fn command(words: &[&str]) -> Vec<u8> {
    let blocks: String =
        words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
    format!("*{}\r\n{blocks}", words.len()).into_bytes()
}
