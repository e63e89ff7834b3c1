//! The lab commands that the README and the texts of `--help` advise, and how each is tested: it runs as written, or in
//! a short form, or another test runs a similar command.

/// How a command is tested.
#[derive(Clone, Copy, Debug)]
pub enum Tested {
    /// The command runs with these words added, so that it takes only seconds.
    Runs(&'static str),
    /// A test runs a command with the same options: the file in `crates/cli/tests`, and the test's name.
    By(&'static str, &'static str),
    /// No test runs the command. The text says why.
    No(&'static str),
}
use Tested::{By, No, Runs};

const KERNELS: Tested = By(
    "lab_boot/kvm_ioeventfd.rs",
    "groups_come_and_go_on_three_kernels_and_ioeventfds_are_kvms_on_the_oldest_and_the_newest",
);
const SELFTESTS: Tested = By(
    "lab_boot/selftests.rs",
    "tests_of_ioeventfd_and_of_resample_pass_on_the_newest_kernel",
);

/// All commands, as they are written.
pub const ALL: [(&str, Tested); 38] = [
    ("vmbell lab -- ./program", Runs("")),
    ("vmbell lab -- PROGRAM", Runs("")),
    ("vmbell lab -- target/debug/examples/kvm_smoke", Runs("")),
    ("vmbell lab -- vmbell bench", Runs("")),
    (
        "vmbell lab --deterministic -- vmbell sweep qemu-pc",
        By(
            "lab_boot/sweep.rs",
            "a_request_that_a_snapshot_of_qemu_forgets_is_lost_in_each_restore",
        ),
    ),
    (
        "vmbell lab --deterministic -- vmbell bench",
        Runs("--runs 1 --warmup 0 --ops 10"),
    ),
    ("vmbell lab --arch aarch64 -- vmbell bench", Runs("")),
    (
        "vmbell lab -- vmbell bench --all",
        Runs("--runs 1 --warmup 0 --ops 10"),
    ),
    (
        "vmbell lab -- vmbell bench --all --export-json kvm.json",
        By(
            "lab_boot/bench.rs",
            "a_bench_at_the_labs_time_limit_shows_and_exports_the_rows_that_it_has",
        ),
    ),
    (
        "vmbell lab -- vmbell bench vmms",
        Runs("vmbell --rows cpuid"),
    ),
    (
        "vmbell lab -- vmbell bench eoi",
        Runs("--deterministic -n 20"),
    ),
    (
        "vmbell lab -- vmbell bench net",
        Runs("vmbell-ioeventfd --runs 1"),
    ),
    (
        "vmbell lab --depth 1,2,3 -- vmbell bench",
        Runs("--only portio-no-eventfd --runs 1 --warmup 0 --ops 10"),
    ),
    (
        "vmbell lab --out results --with data -- PROGRAM",
        By("lab_boot/program.rs", "files_go_in_and_come_back"),
    ),
    (
        "vmbell lab --device edu -- PROGRAM",
        By(
            "lab_boot/devices.rs",
            "devices_are_ready_to_be_assigned_and_the_network_card_has_a_peer",
        ),
    ),
    (
        "vmbell lab --arch aarch64 -- target/aarch64-unknown-linux-musl/debug/PROGRAM",
        By(
            "lab_boot_arm64/program.rs",
            "a_program_runs_beside_arm64s_kvm_and_its_status_comes_back",
        ),
    ),
    ("vmbell lab --kernel debian:6.1 -- PROGRAM", KERNELS),
    (
        "vmbell lab --kernel debian:6.1 --kernel debian:newest -- vmbell bench",
        KERNELS,
    ),
    (
        "vmbell lab kernel --kernel debian:6.12 --kvm-patch my.patch --unpatched -- vmbell bench",
        By(
            "lab_boot/kernels.rs",
            "kvm_built_from_its_source_is_the_packages_except_for_the_patch",
        ),
    ),
    (
        "vmbell lab kernel --kernel debian:6.12 --kvm-patch FILE --unpatched -- vmbell bench",
        By(
            "lab_boot/kernels.rs",
            "kvm_built_from_its_source_is_the_packages_except_for_the_patch",
        ),
    ),
    (
        "vmbell lab kernel --bisect --kernel debian:6.12 --kernel debian:newest -- vmbell bench ROW --only",
        No("each step downloads a kernel of 50 MB, and Debian's archive changes"),
    ),
    (
        "vmbell lab -- vmbell run x86/vmexit.flat",
        By(
            "lab_boot/program.rs",
            "an_image_runs_on_the_pc_inside_and_its_status_comes_back",
        ),
    ),
    (
        "vmbell lab kernel --kernel bzImage --modules none -- PROGRAM",
        By(
            "command/lab/starts.rs",
            "kernels_that_cannot_boot_are_refused",
        ),
    ),
    (
        "vmbell lab kernel --retries 2 --console -- PROGRAM",
        Runs(""),
    ),
    ("vmbell lab kernel --help", Runs("")),
    (
        "vmbell lab kernel prepare --kernel debian:6.12 --kvm-patch my.patch",
        By(
            "command/lab/prepare.rs",
            "a_kernel_of_debian_is_prepared_by_its_version_and_kept",
        ),
    ),
    (
        "vmbell lab kernel prepare --kernel debian:6.12 --debug-kernel",
        No("it builds a kernel, which takes 10 to 30 minutes"),
    ),
    ("vmbell lab prepare", Runs("")),
    ("vmbell lab prepare --depth 2", Runs("")),
    (
        "vmbell lab prepare --kernel debian:6.1",
        By(
            "command/lab/prepare.rs",
            "a_kernel_of_debian_is_prepared_by_its_version_and_kept",
        ),
    ),
    ("vmbell lab status --verify", Runs("")),
    (
        "vmbell lab kernel selftests",
        No("it builds all tests, which takes minutes"),
    ),
    (
        "vmbell lab kernel selftests --kernel debian:6.12",
        SELFTESTS,
    ),
    (
        "vmbell lab kernel selftests ioeventfd_test --kernel debian:6.12 --kvm-patch my.patch",
        By(
            "lab_boot/selftests.rs",
            "a_line_that_no_eoi_lowers_and_a_doorbell_that_no_deassign_removes_are_found",
        ),
    ),
    (
        "vmbell lab kernel selftests --kernel debian:6.18 --from debian:newest",
        No("it builds a kernel's tests, and Debian's archive changes"),
    ),
    (
        "vmbell lab kernel selftests --kernel debian:6.1 --kernel debian:6.12",
        SELFTESTS,
    ),
    (
        "vmbell lab kernel selftests --kernel debian:6.12 '*irq*'",
        SELFTESTS,
    ),
    ("vmbell lab kernel selftests --json", SELFTESTS),
];

/// Returns the lab commands in a text: in Markdown's backticks, or in their own column with two spaces after it. A
/// backslash at the end of a line continues a command.
pub fn commands(text: &str) -> Vec<String> {
    const LAB: &str = "vmbell lab ";
    let of_line = |line| {
        let from = str::find(line, LAB).map(|begin| &line[begin..])?;
        let to = ["`", "  ", " | "]
            .into_iter()
            .filter_map(|end| from.find(end));
        let command = &from[..to.min().unwrap_or(from.len())];
        Some(command.trim_end().to_owned())
    };
    let text: String = text.split("\\\n").map(str::trim_start).collect();
    let lines = text.lines().flat_map(|line| match line.contains('`') {
        true => line.split('`').collect(),
        false => vec![line],
    });
    // A usage line names no command.
    lines
        .filter(|line| line.trim_start().starts_with(LAB) && !line.contains('<'))
        .filter_map(of_line)
        .collect()
}
