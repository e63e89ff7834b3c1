//! Attacks on the usermode backend: guests that jump into the stub, write over memory that it shares with the monitor,
//! or make system calls as it does; sandboxes and monitors that are killed or stopped. [`ATTACKS`] is the table of
//! attacks; each is a test with its name.
//!
//! After each attack nothing is left of its sandbox, and the monitor serves an honest guest normally. Each attack
//! checks what else must hold. Some attacks make rounds of random choices, of which `cargo test` makes a few. The
//! environment changes this:
//! - `VMBELL_ATTACK_ROUNDS`: the number of rounds, or `full` for the number that each attack asks for;
//! - `VMBELL_ATTACK_SEED`: the seed of the choices, as a failure prints it;
//! - `VMBELL_ATTACK_ROUND`: the only round to make.

mod batch;
mod bells;
mod calls;
mod counters;
mod crimes;
mod gadgets;
mod jumps;
mod kills;
mod leaks;
mod orphans;
mod patching;
mod random;
mod scatter;
mod starved;
mod stops;
mod vcpus;
mod watch;
mod world;

use testbed::Usermode;

use batch::Attack;

/// Makes the table of attacks, and a test of each. For an attack with random choices, the two numbers are its rounds in
/// `cargo test` and in its full form.
macro_rules! attacks {
    ($($module:ident::$name:ident $(: $rounds:literal, $full:literal)?;)*) => {
        const ATTACKS: &[Attack] = &[$(attacks!(@ $module $name $($rounds $full)?)),*];

        $(#[test]
        fn $name() {
            let name = concat!("attack::", stringify!($name));
            let attack = ATTACKS.iter().find(|attack| attack.name == name);
            attack.unwrap().run();
        })*
    };
    (@ $module:ident $name:ident) => {
        Attack {
            name: concat!("attack::", stringify!($name)),
            rounds: 1,
            full: 1,
            round: |_, _| $module::$name(&Usermode),
        }
    };
    (@ $module:ident $name:ident $rounds:literal $full:literal) => {
        Attack {
            name: concat!("attack::", stringify!($name)),
            rounds: $rounds,
            full: $full,
            round: $module::$name,
        }
    };
}

attacks! {
    counters::a_guest_may_fill_every_counter: 5, 400;
    counters::a_guest_may_change_how_it_is_notified: 3, 300;
    crimes::a_system_call_is_a_fault;
    crimes::sysenter_ends_the_guest;
    crimes::exceptions_are_faults_by_their_names;
    crimes::an_instruction_that_is_not_decoded_shows_its_bytes;
    crimes::a_jump_to_nowhere_is_a_fault;
    crimes::an_access_where_no_guest_memory_is_is_a_fault;
    crimes::a_push_to_a_stack_that_is_none_is_a_fault;
    crimes::code_of_another_mode_is_a_fault;
    crimes::the_last_byte_of_ram_executes_and_the_next_does_not;
    gadgets::a_guest_may_make_the_stubs_system_calls: 3, 400;
    gadgets::the_descriptor_thread_cannot_be_signalled_by_its_guest;
    gadgets::the_descriptor_thread_handles_no_signal;
    gadgets::no_system_call_of_a_guests_own_making_rings_after_a_removal;
    gadgets::no_write_that_waits_for_a_full_eventfd_rings_after_a_removal;
    gadgets::a_removal_ends_whoever_stops_and_continues_the_sandbox;
    jumps::jumps_into_the_stub_harm_nobody: 25, 1500;
    jumps::the_stubs_own_system_calls_are_no_way_out;
    jumps::a_jump_to_the_stubs_exit_is_an_end_with_its_code;
    jumps::a_jump_into_the_exit_sequence_ends_somehow;
    jumps::a_trap_needs_no_stack;
    jumps::a_jump_needs_no_stack;
    kills::a_sandbox_may_be_killed_at_any_moment: 16, 400;
    kills::a_sandbox_that_is_killed_while_it_starts_is_an_error;
    kills::a_sandbox_that_is_stopped_while_it_starts_is_an_error;
    kills::a_killed_sandbox_is_an_error_on_every_vcpu;
    kills::a_sandbox_ends_with_its_guest;
    kills::a_removal_from_a_sandbox_that_is_being_killed_succeeds;
    kills::a_guest_outlives_the_thread_that_made_it;
    kills::a_sandbox_has_no_files_but_its_doorbells;
    orphans::no_sandbox_outlives_its_monitor: 10, 300;
    orphans::a_killed_monitor_leaves_no_sandbox;
    patching::code_over_a_patched_site_is_the_guests_own;
    patching::a_branch_into_a_patched_jump_lands_where_it_meant_to;
    patching::a_guest_may_write_over_a_patched_site;
    scatter::a_guest_may_write_over_all_that_it_shares: 5, 300;
    scatter::removal_ends_though_the_counters_are_nonsense;
    scatter::a_forged_exit_is_an_exit_or_an_error;
    scatter::every_reason_can_be_forged;
    scatter::what_the_guest_cannot_write_it_cannot_write;
    starved::a_removed_doorbell_waits_for_a_vcpu_that_gets_no_cpu;
    starved::a_removed_irqfd_waits_for_a_vcpu_that_gets_no_cpu;
    stops::a_sandbox_may_be_stopped_at_any_moment: 4, 1500;
    stops::a_stopped_sandbox_goes_on;
    stops::a_removal_from_a_stopped_sandbox_is_finished_by_a_retry;
    stops::a_doorbell_that_a_stopped_sandbox_keeps_is_dropped_without_another_try;
    stops::a_resamplefd_of_a_stopped_sandbox_is_taken_back_by_a_retry;
}
