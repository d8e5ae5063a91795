//! Channels.

use super::{Call, HEARING, Keys, LOADING, NO_SCRIPT, PUBSUB, Spec};
use crate::{
    core::Core,
    glob::is_like,
    reply::{Answer, Reply},
};

const SUBSCRIBING: u16 = PUBSUB | NO_SCRIPT | LOADING | HEARING;

pub(super) const COMMANDS: &[Spec] = &[
    Spec::new("publish", 3, PUBSUB | LOADING, Keys::None, publish).on_channels(1),
    Spec::new("pubsub|channels", -2, PUBSUB | LOADING, Keys::None, channels),
    Spec::new("pubsub|numsub", -2, PUBSUB | LOADING, Keys::None, numsub),
    Spec::new("subscribe", -2, SUBSCRIBING, Keys::None, subscribe).on_channels(1),
    Spec::new("unsubscribe", -1, SUBSCRIBING, Keys::None, unsubscribe),
];

fn publish(core: &mut Core, call: &Call<'_>) -> Answer {
    Ok(Reply::count(core.publish(call.word(1), call.word(2))))
}

fn numsub(core: &mut Core, call: &Call<'_>) -> Answer {
    let counted = |channel: &&[u8]| [Reply::bulk(channel), Reply::count(core.hearers(channel))];
    Ok(Reply::List(call.after(2).iter().flat_map(counted).collect()))
}

fn channels(core: &mut Core, call: &Call<'_>) -> Answer {
    let pattern = call.words.get(2).copied().unwrap_or(b"*");
    Ok(Reply::bulks(core.channels().filter(|channel| is_like(pattern, channel))))
}

fn subscribe(core: &mut Core, call: &Call<'_>) -> Answer {
    for channel in call.after(1) {
        let count = core.subscribe(call.client, channel);
        core.say(call.client, &confirmed("subscribe", Reply::bulk(channel), count));
    }
    Ok(Reply::Said)
}

fn unsubscribe(core: &mut Core, call: &Call<'_>) -> Answer {
    let named: Vec<_> = call.after(1).iter().map(|channel| channel.to_vec()).collect();
    let channels = if named.is_empty() { core.heard_by(call.client) } else { named };
    for channel in &channels {
        let count = core.unsubscribe(call.client, channel);
        core.say(call.client, &confirmed("unsubscribe", Reply::bulk(channel), count));
    }
    if channels.is_empty() {
        core.say(call.client, &confirmed("unsubscribe", Reply::Nil, 0));
    }
    Ok(Reply::Said)
}

fn confirmed(what: &str, channel: Reply, count: usize) -> Reply {
    Reply::Push(vec![Reply::bulk(what), channel, Reply::count(count)])
}
