//! The arguments that all subcommands share, and the texts of `--help`.

use clap::{Parser, Subcommand};

use super::bench_args::BenchArgs;
use super::compare_args::CompareArgs;
use super::completions::CompletionsArgs;
use super::lab::LabArguments;
use super::list::ListArgs;
use super::man::ManArgs;
use super::net::NetArgs;
use super::probe::ProbeArgs;
use super::report::ReportArgs;
use super::run_image::RunArgs;
use super::stat::StatArgs;
use super::version;
use super::virtqueue::VirtqueueArgs;
use super::vmm::VmmArgs;

const EXAMPLES: &str = "\
Examples:
  vmbell bench                                  the first questions about a host, on every backend
  vmbell bench --all                            every path and every floor
  vmbell bench '*-datamatch-*' --doorbells 1,1000
                                                how a doorbell's cost grows with others beside it
  vmbell bench 'portio-*' --export-json -       one kind of path, as JSON on stdout
  vmbell bench mmio-no-eventfd --spin spin      a device model on a spinning core
  vmbell compare old*.json -- new*.json         what changed between these reports
  vmbell virtqueue --repeat 25                  what polling a virtqueue safely costs
  vmbell stat -z                                exits of interrupts, with PV EOI off and on
  vmbell report a.json b.json                   exported reports as one page for a browser
  vmbell list                                   what can be measured
  vmbell probe                                  what this host offers
  vmbell probe --devices                        which of its devices a guest could have
  vmbell run vmexit.flat --device pci-testdev   an image of kvm-unit-tests
  vmbell vmm                                    the same paths under QEMU and other VMMs
  vmbell net                                    round trips of Linux's network driver in a guest
  vmbell lab run -- ./program                   a program on real KVM, inside QEMU
  vmbell lab bench --deterministic              this bench there, in instructions

Exit codes:
  0    all good
  1    something failed
  2    the arguments make no sense
  77   everything was skipped
  124  the command's own time limit (--timeout) ran out
  130  interrupted (SIGINT), 143 by SIGTERM; what was finished has been written
";

/// Rings bells between a guest and its host, by every path there is, and says what each one costs.
#[derive(Debug, Parser)]
#[command(name = "vmbell", version = version::short(), long_version = version::long(), about, after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Bench(BenchArgs),
    Compare(CompareArgs),
    Report(ReportArgs),
    Virtqueue(VirtqueueArgs),
    List(ListArgs),
    Probe(ProbeArgs),
    Run(RunArgs),
    Stat(StatArgs),
    Vmm(VmmArgs),
    Net(NetArgs),
    Lab(LabArguments),
    Completions(CompletionsArgs),
    Man(ManArgs),
}
