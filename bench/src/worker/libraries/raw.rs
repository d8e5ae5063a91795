//! The bare commands of Leasehold over one connection of the same crate, with
//! nothing around them: the limit of what a pair can cost.

use std::time::Duration;

use redis::{Value, aio::MultiplexedConnection};

use super::{Library, Outcome};
use crate::job::TTL;

#[derive(Clone, Debug)]
pub(crate) struct Raw {
    connection: MultiplexedConnection,
    acquire: String,
}

/// A name that was free, and its owner.
#[derive(Debug)]
pub(crate) struct Held {
    name: String,
    owner: String,
}

impl Library for Raw {
    type Held = Held;

    async fn connect(url: &str) -> Outcome<Self> {
        let mut connection = connect(url).await?;
        let acquire = load(&mut connection, include_str!(script!("acquire"))).await?;
        Ok(Self { connection, acquire })
    }

    async fn acquire(&self, name: &str) -> Outcome<Held> {
        self.seize(name, TTL).await
    }

    async fn release(&self, held: Held) -> Outcome<()> {
        let channel = format!("redisson_lock__channel:{{{}}}", held.name);
        let mut calls = redis::pipe();
        calls.cmd("HDEL").arg(&held.name).arg(&held.owner);
        calls.cmd("PUBLISH").arg(channel).arg("0");
        let replies = self.connection.clone().send_packed_commands(&calls, 0, 2).await?;
        match replies.as_slice() {
            [Value::Int(1), Value::Int(_)] => Ok(()),
            other => Err(format!("the release was answered {other:?}").into()),
        }
    }

    async fn hold(&self, name: &str, ttl: Duration) -> Outcome<Held> {
        self.seize(name, ttl).await
    }

    async fn seize(&self, name: &str, lease: Duration) -> Outcome<Held> {
        let owner = format!("raw:{name}");
        let mut call = redis::cmd("EVALSHA");
        call.arg(&self.acquire).arg(1).arg(name).arg(&owner).arg(lease.as_millis() as u64);
        self.granted(&call, &owner).await?;
        Ok(Held { name: name.to_owned(), owner })
    }
}

impl Raw {
    async fn granted(&self, call: &redis::Cmd, owner: &str) -> Outcome<()> {
        match self.connection.clone().send_packed_command(call).await? {
            Value::BulkString(granted) if granted == owner.as_bytes() => Ok(()),
            other => Err(format!("a script answered {other:?}").into()),
        }
    }
}

/// A connection set up as the library's own.
async fn connect(url: &str) -> Outcome<MultiplexedConnection> {
    let info = redis::IntoConnectionInfo::into_connection_info(format!("{url}?protocol=resp3"))?;
    let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let client = redis::Client::open(info.set_tcp_settings(tcp))?;
    let config = redis::AsyncConnectionConfig::new()
        .set_response_timeout(None)
        .set_pipeline_buffer_size(16_384);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

async fn load(connection: &mut MultiplexedConnection, text: &str) -> Outcome<String> {
    Ok(redis::cmd("SCRIPT").arg("LOAD").arg(text).query_async(connection).await?)
}

/// Where the library keeps its script of that name.
macro_rules! script {
    ($name:literal) => {
        concat!(env!("CARGO_MANIFEST_DIR"), "/../src/store/redis/lua/lock/", $name, ".lua")
    };
}
use script;
