//! Fixed work on one thread, for a tool that counts instructions:
//!
//! ```text
//! cargo bench --bench virtqueue_work --no-run
//! valgrind --tool=callgrind target/release/deps/virtqueue_work-... split wide 32 100000
//! ```
//!
//! The arguments are the ring (`split` or `packed`), the tokens (`plain`, `wraps` or `wide`), the
//! buffers in flight and the number of buffers. Without arguments every variant runs once and prints
//! nanoseconds per buffer.

use vmbell_bench::workload::{Batch, Threads, Tokens, WorkloadOptions, run};

fn work(packed: bool, tokens: Tokens, batch: u16, bufs: u64) -> f64 {
    let options = WorkloadOptions {
        packed,
        tokens,
        batch: Batch::Fixed(batch),
        bufs,
        threads: Threads::One,
        ..WorkloadOptions::default()
    };
    run(&options, &|_| {})
        .expect("the run completes")
        .ns_per_buffer()
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [ring, tokens, batch, bufs] = &args[..] {
        let tokens = match tokens.as_str() {
            "plain" => Tokens::Plain,
            "wraps" => Tokens::WrapCounters,
            _ => Tokens::Wide,
        };
        let (batch, bufs) = (
            batch.parse().expect("a number"),
            bufs.parse().expect("a number"),
        );
        work(ring == "packed", tokens, batch, bufs);
        return;
    }
    for packed in [false, true] {
        for batch in [1, 32, 256] {
            for tokens in [Tokens::Plain, Tokens::WrapCounters, Tokens::Wide] {
                let ns = work(packed, tokens, batch, 1 << 20);
                let ring = if packed { "packed" } else { "split" };
                println!("{ring} {tokens:?} batch {batch}: {ns:.1} ns a buffer");
            }
        }
    }
}
