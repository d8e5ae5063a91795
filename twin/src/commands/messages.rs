//! The commands of pub/sub, for plain and for sharded channels.

use super::{Call, HEARING, Keys, LOADING, NO_SCRIPT, PUBSUB, SHARDED, Spec};
use crate::{
    core::{Core, clients::Scope},
    glob::is_like,
    reply::{Answer, Reply},
};

const TRAITS: u16 = PUBSUB | LOADING;
const SUBSCRIBING: u16 = PUBSUB | NO_SCRIPT | LOADING | HEARING;

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("publish", 3, TRAITS, Keys::None, |core, call| publish(core, call, Scope::Plain))
        .on_channels(1),
    Spec::new("pubsub|channels", -2, TRAITS, Keys::None, |core, call| {
        channels(core, call, Scope::Plain)
    }),
    Spec::new("pubsub|numsub", -2, TRAITS, Keys::None, |core, call| {
        numsub(core, call, Scope::Plain)
    }),
    Spec::new("pubsub|shardchannels", -2, TRAITS, Keys::None, |core, call| {
        channels(core, call, Scope::Sharded)
    }),
    Spec::new("pubsub|shardnumsub", -2, TRAITS, Keys::None, |core, call| {
        numsub(core, call, Scope::Sharded)
    }),
    Spec::new("spublish", 3, TRAITS | SHARDED, Keys::None, |core, call| {
        publish(core, call, Scope::Sharded)
    })
    .on_channels(1),
    Spec::new("ssubscribe", -2, SUBSCRIBING | SHARDED, Keys::None, |core, call| {
        subscribe(core, call, Scope::Sharded)
    })
    .on_channels(1),
    Spec::new("subscribe", -2, SUBSCRIBING, Keys::None, |core, call| {
        subscribe(core, call, Scope::Plain)
    })
    .on_channels(1),
    Spec::new("sunsubscribe", -1, SUBSCRIBING | SHARDED, Keys::None, |core, call| {
        unsubscribe(core, call, Scope::Sharded)
    }),
    Spec::new("unsubscribe", -1, SUBSCRIBING, Keys::None, |core, call| {
        unsubscribe(core, call, Scope::Plain)
    }),
];

fn publish(core: &mut Core, call: &Call<'_>, scope: Scope) -> Answer {
    Ok(Reply::count(core.publish(scope, call.word(1), call.word(2))))
}

fn numsub(core: &mut Core, call: &Call<'_>, scope: Scope) -> Answer {
    let count = |channel: &[u8]| Reply::count(core.listeners(scope, channel).count());
    let counted = |channel: &&[u8]| [Reply::bulk(channel), count(channel)];
    Ok(Reply::List(call.after(2).iter().flat_map(counted).collect()))
}

fn channels(core: &mut Core, call: &Call<'_>, scope: Scope) -> Answer {
    let pattern = call.words.get(2).copied().unwrap_or(b"*");
    Ok(Reply::bulks(core.channels(scope).filter(|channel| is_like(pattern, channel))))
}

fn subscribe(core: &mut Core, call: &Call<'_>, scope: Scope) -> Answer {
    for channel in call.after(1) {
        let count = core.subscribe(call.client, scope, channel);
        core.say(call.client, &confirmed(call.spec.name, Reply::bulk(channel), count));
    }
    Ok(Reply::Said)
}

fn unsubscribe(core: &mut Core, call: &Call<'_>, scope: Scope) -> Answer {
    let named: Vec<_> = call.after(1).iter().map(|channel| channel.to_vec()).collect();
    let channels = if named.is_empty() { core.subscribed_by(call.client, scope) } else { named };
    for channel in &channels {
        let count = core.unsubscribe(call.client, scope, channel);
        core.say(call.client, &confirmed(call.spec.name, Reply::bulk(channel), count));
    }
    if channels.is_empty() {
        core.say(call.client, &confirmed(call.spec.name, Reply::Nil, 0));
    }
    Ok(Reply::Said)
}

fn confirmed(what: &str, channel: Reply, count: usize) -> Reply {
    Reply::Push(vec![Reply::bulk(what), channel, Reply::count(count)])
}
