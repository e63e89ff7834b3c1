//! `vmbell lab kernel selftests`: builds the selftests of KVM from a kernel's source, runs them on its KVM, and
//! compares the results with the known ones.

mod output;
mod runner;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use self::output::{KernelResults, blocks, json};
use self::runner::SelftestRunner;
use super::machine::{announce, memory};
use super::parts::{LabParts, RunKernel, boards};
use crate::args::MACHINE;
use crate::args::exports::{BlockExportArgs, BlockExports};
use crate::args::values;
use crate::exit::{Exit, Usage};
use crate::output::deliver::{show, show_below};
use crate::output::print;
use crate::output::style::Style;
use vmbell_bench::did_you_mean;
use vmbell_bench::picks;
use vmbell_lab::board::EmulatorKind;
use vmbell_lab::boot::{Settings, TimeLimits, TimeMode};
use vmbell_lab::debian::KernelVersion;
use vmbell_lab::selftests::{KnownResults, SelftestSuite};
use vmbell_report::Block;

/// The heading of options in `--help`.
const TESTS: &str = "The tests";

const EXAMPLES: &str = "\
Examples:
  vmbell lab kernel selftests
      run all tests on the distribution's kernel
  vmbell lab kernel selftests --kernel debian:6.12 '*irq*'
      run the tests whose names contain irq
  vmbell lab kernel selftests ioeventfd_test --kernel debian:6.12 \\
      --kvm-patch my.patch
      run one of vmbell's tests on a patched KVM
  vmbell lab kernel selftests --kernel debian:6.18 --from debian:newest
      run the tests of another kernel's source
  vmbell lab kernel selftests --kernel debian:6.1 --kernel debian:6.12
      count the results on two kernels
  vmbell lab kernel selftests --json \\
      | jq '.kernels[].tests[] | select(.known | not)'
      let a program read the results that are not as expected

Exit status:
  0    each test had the result known for it
  1    a result differs from the known one
  2    no test has this name
  124  a boot did not start in time
  125  the lab itself failed
";

/// Build the kernel's selftests of KVM from its own source, and run them on its KVM
///
/// Builds tools/testing/selftests/kvm of the kernel's version with the compiler, the C library and the headers of its
/// distribution, and five tests of vmbell's own: ioeventfd_test, ioeventfd_stress_test, irqfd_resample_test, and for
/// --kvm-ioeventfd ioeventfd_groups_test and ioeventfd_ring_test. Runs each in the lab with a time limit, and compares
/// the result with those known of this kernel in the lab. A test that does not compile has the result `unbuilt`, and
/// the others run.
///
/// The first build for a kernel downloads its source; what is built is kept in the cache.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct SelftestsArguments {
    /// Run only these tests: names, or patterns with * and ? [default: all]
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
    #[command(flatten)]
    parts: LabParts,
    /// Take the tests of this kernel of Debian instead of the kernel's own
    #[arg(long, help_heading = TESTS, value_name = "debian:VERSION")]
    from: Option<KernelVersion>,
    /// Kill a test after this time
    #[arg(long, help_heading = TESTS, value_name = "TIME", default_value = "25s", value_parser = values::positive_duration)]
    limit: Duration,
    /// Compare with this list instead of vmbell's: lines `KERNEL TEST RESULT CAUSE`, with a `?` after the result if the
    /// test may also pass; tests that it does not name must pass
    #[arg(long, help_heading = TESTS, value_name = "FILE")]
    known: Option<PathBuf>,
    /// Give L1 N CPUs
    #[arg(long, help_heading = MACHINE, value_name = "N", default_value = "2", value_parser = values::positive::<u32>)]
    vcpus: u32,
    /// Give L1 this much memory; at least 128M
    #[arg(long, help_heading = MACHINE, value_name = "SIZE", default_value = "2G", value_parser = memory)]
    memory: u64,
    /// Give up a boot if the tests have not started after this time
    #[arg(long, help_heading = MACHINE, value_name = "TIME", default_value = "5m", value_parser = values::positive_duration)]
    boot_timeout: Duration,
    /// Print JSON
    #[arg(long, help_heading = TESTS)]
    json: bool,
    #[command(flatten)]
    exports: BlockExportArgs,
}

/// Runs the tests on each kernel; the exit status says whether all results are the known ones.
pub(super) fn run(arch: Option<&str>, arguments: &SelftestsArguments) -> anyhow::Result<ExitCode> {
    SelftestSuite::check(&boards(arch, false)?.1)?;
    let known = match &arguments.known {
        None => KnownResults::own()?,
        Some(path) => read_known(path)?,
    };
    let exports = BlockExports::open(&arguments.exports)?;
    let stdout_is_taken = exports.use_stdout();
    if arguments.json && stdout_is_taken {
        return Err(Usage::new("only one of --json and --export-... can go to stdout").into());
    }
    let mut all = Vec::new();
    let mut add = |blocks: Vec<Block>| {
        let show = if all.is_empty() { show } else { show_below };
        let shown = match arguments.json {
            true => Ok(()),
            false => show(Style::Auto, stdout_is_taken, &blocks),
        };
        all.extend(blocks);
        shown
    };
    let mut kernels = Vec::new();
    let choices = arguments.parts.choices()?;
    let board = boards(arch, false)?.1;
    arguments.parts.check(board, &choices, false)?;
    for choice in &choices {
        let emulator = choice.board(board)?.emulator;
        emulator.check_memory(arguments.memory)?;
    }
    for choice in choices {
        let kernel = run_on(arch, arguments, &choice, &known)?;
        add(blocks(&kernel))?;
        kernels.push(kernel);
    }
    if kernels.len() > 1 {
        add(vec![output::counts(&kernels)])?;
    }
    let exported = exports.finish("KVM's selftests", &all);
    if arguments.json {
        print(&json(&kernels)?)?;
    }
    exported?;
    let is_known = kernels.iter().all(KernelResults::is_known);
    let exit = if is_known { Exit::Good } else { Exit::Failed };
    Ok(exit.into())
}

/// The user's list of known results.
fn read_known(path: &Path) -> Result<KnownResults, Usage> {
    let file = path.display();
    let text = fs::read_to_string(path);
    let text = text.map_err(|error| Usage::new(format!("--known: cannot read {file}: {error}")))?;
    KnownResults::parse(&text).map_err(|error| Usage::new(format!("--known: {file}: {error}")))
}

fn run_on(
    arch: Option<&str>,
    arguments: &SelftestsArguments,
    choice: &RunKernel,
    known: &KnownResults,
) -> anyhow::Result<KernelResults> {
    let (host, board) = boards(arch, false)?;
    let board = choice.board(board)?;
    let settings = Settings {
        mode: TimeMode::Functional {
            cpus: arguments.vcpus,
        },
        memory: arguments.memory,
        limits: TimeLimits {
            boot: arguments.boot_timeout,
            program: arguments.limit,
        },
        ..Settings::default()
    };
    let (parts, patterns) = (&arguments.parts, &arguments.patterns);
    let from = arguments.from.as_ref();
    let mut built = None;
    let lab = parts.open_with(host, board, &settings, choice, |provision, kernel| {
        let suite = provision.selftests(kernel, from)?;
        let tests = chosen(&suite.tests(), patterns)?;
        built = Some((suite.build(&tests, parts.progress())?, suite.release()));
        Ok(())
    })?;
    let Some((built, tests_release)) = built else {
        bail!("the selftests were not built");
    };
    announce(&lab, &settings, None);
    let emulator = lab.board.emulator;
    let name = KnownResults::kernel(lab.kernel.release(), &tests_release, emulator);
    let title = match emulator {
        EmulatorKind::Qemu => lab.kernel.title.clone(),
        EmulatorKind::Bochs(_) => format!("{}, VMX", lab.kernel.title),
    };
    if !known.has(&name) {
        lab.progress.say(format_args!(
            "no results are known of {name}, so each test is to pass"
        ));
    }
    let bar = lab.progress.count(built.len() as u64);
    let ran = SelftestRunner::new(&lab, settings, arguments.limit, bar).run(&built)?;
    Ok(KernelResults::new(
        &title,
        &tests_release,
        &name,
        known,
        &ran,
    ))
}

/// The tests that match the patterns, each once and in the order of `all`.
fn chosen(all: &[String], patterns: &[String]) -> anyhow::Result<Vec<String>> {
    let names: Vec<&str> = all.iter().map(String::as_str).collect();
    for pattern in patterns {
        if !names.iter().any(|name| picks(pattern, name)) {
            let message = format!(
                "this kernel has no selftest '{pattern}'{}; it has {}",
                did_you_mean(pattern, &names),
                names.join(", ")
            );
            return Err(Usage::new(message).into());
        }
    }
    let is_chosen =
        |name: &&str| patterns.is_empty() || patterns.iter().any(|pattern| picks(pattern, name));
    let chosen = names.iter().copied().filter(is_chosen);
    Ok(chosen.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn patterns_choose_tests_and_an_unknown_one_names_the_nearest() {
        let all = names(&["irqfd_test", "smm_test", "state_test"]);
        let chosen = |patterns: &[&str]| chosen(&all, &names(patterns));
        assert_eq!(chosen(&[]).unwrap(), all);
        let both = chosen(&["s*_test", "irqfd_test", "state_test"]).unwrap();
        assert_eq!(both, all);
        assert_eq!(chosen(&["s?m*"]).unwrap(), names(&["smm_test"]));
        let error = chosen(&["smm_test", "irqfd_tset"]).unwrap_err();
        assert!(error.is::<Usage>());
        assert_eq!(
            error.to_string(),
            "this kernel has no selftest 'irqfd_tset', did you mean 'irqfd_test'?; \
             it has irqfd_test, smm_test, state_test"
        );
        chosen(&["x*"]).unwrap_err();
    }
}
