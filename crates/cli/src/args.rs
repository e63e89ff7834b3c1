//! The arguments that all subcommands share, and the texts of `--help`.

use clap::{Parser, Subcommand};

use super::compare_args::CompareArgs;
use super::completions::CompletionsArgs;
use super::gate::GateArgs;
use super::lab::LabArguments;
use super::list::ListArgs;
use super::man::ManArgs;
use super::probe::ProbeArgs;
use super::report::ReportArgs;
use super::run_image::RunArgs;
use super::suites::SuiteArgs;
use super::top::TopArgs;
use super::version;

const EXAMPLES: &str = "\
Examples:
  vmbell bench                                  measure the notification paths of this host
  vmbell bench --all --export-json now.json     measure all of them, and keep the report
  vmbell bench rings                            measure virtqueues
  vmbell bench eoi -z                           count exits of interrupts, with PV EOI off and on
  vmbell bench vmms                             measure QEMU and other VMMs with the same guest
  vmbell bench net                              measure Linux's network driver in a guest
  vmbell list                                   show what can be measured
  vmbell compare old*.json -- new*.json         show what changed between reports
  vmbell gate                                   hold the exits and instructions of VMMs to a budget
  vmbell report a.json b.json                   make an HTML page from reports
  vmbell probe                                  show what this host offers
  vmbell probe --devices                        show which devices a guest could have
  vmbell top --once                             show exits and notifications of the VMs that run here
  vmbell run vmexit.flat --device pci-testdev   boot an image of kvm-unit-tests
  vmbell lab -- ./program                       run a program on real KVM, inside QEMU
  vmbell lab -- vmbell bench                    measure there, counting instructions

Exit codes:
  0    success
  1    something failed
  2    the arguments are wrong
  69   this host does not offer what was asked for (vmbell top --source)
  77   everything was skipped
  124  the command's own time limit (--timeout) expired
  130  interrupted by SIGINT (143: by SIGTERM); finished results have been written
";

/// Measure and test notifications between a VM guest and its host: ioeventfd, irqfd, PV EOI and virtqueues
#[derive(Debug, Parser)]
#[command(name = "vmbell", version = version::short(), long_version = version::long(), after_help = EXAMPLES, max_term_width = 100)]
#[command(arg_required_else_help = true, propagate_version = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Bench(Box<SuiteArgs>),
    List(ListArgs),
    Compare(CompareArgs),
    Gate(GateArgs),
    Report(ReportArgs),
    Top(TopArgs),
    Probe(ProbeArgs),
    Run(RunArgs),
    Lab(Box<LabArguments>),
    #[command(hide = true)]
    Completions(CompletionsArgs),
    #[command(hide = true)]
    Man(ManArgs),
}
