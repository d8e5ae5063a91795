//! Tests of the public API, linked as one program. So the linker runs once, and tests of different
//! files run at the same time. A test that measures its own process, for example the memory, is a
//! separate program.

#[path = "../common/mod.rs"]
mod common;

#[path = "../barrier.rs"]
mod barrier;
#[path = "../blocking.rs"]
mod blocking;
#[path = "../bounds.rs"]
mod bounds;
#[path = "../cancel.rs"]
mod cancel;
#[path = "../claims.rs"]
mod claims;
#[path = "../dependencies.rs"]
mod dependencies;
#[path = "../election.rs"]
mod election;
#[path = "../examples.rs"]
mod examples;
#[path = "../fence_redis.rs"]
mod fence_redis;
#[path = "../fence_sql.rs"]
mod fence_sql;
#[path = "../latch.rs"]
mod latch;
#[path = "../limits.rs"]
mod limits;
#[path = "../lock/main.rs"]
mod lock;
#[path = "../map.rs"]
mod map;
#[path = "../memory.rs"]
mod memory;
#[cfg(feature = "metrics")]
#[path = "../metrics.rs"]
mod metrics;
#[path = "../multi.rs"]
mod multi;
#[path = "../permits.rs"]
mod permits;
#[path = "../quorum.rs"]
mod quorum;
#[path = "../rate_limiter.rs"]
mod rate_limiter;
#[path = "../read_write.rs"]
mod read_write;
#[path = "../redis_barrier.rs"]
mod redis_barrier;
#[path = "../redis_claims.rs"]
mod redis_claims;
#[path = "../redis_client_info.rs"]
mod redis_client_info;
#[path = "../redis_cluster.rs"]
mod redis_cluster;
#[path = "../redis_cluster_exclusion.rs"]
mod redis_cluster_exclusion;
#[path = "../redis_cluster_replicated.rs"]
mod redis_cluster_replicated;
#[path = "../redis_contention.rs"]
mod redis_contention;
#[path = "../redis_cost.rs"]
mod redis_cost;
#[path = "../redis_cost_of_objects.rs"]
mod redis_cost_of_objects;
#[path = "../redis_election.rs"]
mod redis_election;
#[path = "../redis_fair.rs"]
mod redis_fair;
#[path = "../redis_fairness.rs"]
mod redis_fairness;
#[path = "../redis_faults.rs"]
mod redis_faults;
#[path = "../redis_guarded.rs"]
mod redis_guarded;
#[path = "../redis_health.rs"]
mod redis_health;
#[path = "../redis_input.rs"]
mod redis_input;
#[path = "../redis_latch.rs"]
mod redis_latch;
#[path = "../redis_map.rs"]
mod redis_map;
#[path = "../redis_multi.rs"]
mod redis_multi;
#[path = "../redis_permits.rs"]
mod redis_permits;
#[path = "../redis_quorum.rs"]
mod redis_quorum;
#[path = "../redis_rate_limiter.rs"]
mod redis_rate_limiter;
#[path = "../redis_read_write.rs"]
mod redis_read_write;
#[path = "../redis_recovery.rs"]
mod redis_recovery;
#[path = "../redis_replicas.rs"]
mod redis_replicas;
#[path = "../redis_replicated.rs"]
mod redis_replicated;
#[path = "../redis_semaphore.rs"]
mod redis_semaphore;
#[path = "../redis_sentinel.rs"]
mod redis_sentinel;
#[path = "../redis_start.rs"]
mod redis_start;
#[path = "../redis_strangers.rs"]
mod redis_strangers;
#[path = "../redis_tenants.rs"]
mod redis_tenants;
#[path = "../redis_tls.rs"]
mod redis_tls;
#[path = "../redis_wait_queue.rs"]
mod redis_wait_queue;
#[path = "../redis_wire.rs"]
mod redis_wire;
#[path = "../run.rs"]
mod run;
#[path = "../scenarios.rs"]
mod scenarios;
#[path = "../scenarios_fair.rs"]
mod scenarios_fair;
#[path = "../scenarios_numbers.rs"]
mod scenarios_numbers;
#[path = "../scenarios_permits.rs"]
mod scenarios_permits;
#[path = "../scenarios_read_write.rs"]
mod scenarios_read_write;
#[path = "../seen.rs"]
mod seen;
#[path = "../semaphore.rs"]
mod semaphore;
#[path = "../set.rs"]
mod set;
#[path = "../tower_layer.rs"]
mod tower_layer;
#[path = "../web.rs"]
mod web;
