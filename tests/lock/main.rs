//! The lock, its guard and its client, in virtual time. Each file tests one operation.

mod acquiring;
mod exclusion;
mod forcing;
mod handing_off;
mod inspecting;
mod losing;
mod releasing;
mod renewing;
mod runtimes;
mod settings;
mod shutdown;
mod stats;
mod timeout;
mod trying;
mod world;

use tokio::time::{Instant, sleep};

use self::world::{AT_ONCE, World, leave, secs};

#[tokio::test(start_paused = true)]
async fn run_waits_for_the_guard_of_another_client() {
    let world = World::new();
    let guard = world.other_door().acquire().await.unwrap();
    let lock = world.door();
    let (ran, ()) = tokio::join!(lock.run(async |_| Instant::now()), async {
        sleep(secs(5)).await;
        leave(guard).await;
    });
    let began = ran.unwrap();
    assert!(began.elapsed() < AT_ONCE);
}
