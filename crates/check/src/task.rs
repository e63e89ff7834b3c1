//! The tasks of a scenario as coroutines of one thread, and the link from code under test to the search that runs it.
//!
//! A task runs until it has to wait. The search is reached through a thread-local pointer, which is set while a task
//! runs.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::Once;

use corosensei::stack::DefaultStack;
use corosensei::trap::CoroutineTrapHandler;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::arch;
use crate::native;
use crate::search::{Access, Search, Stop};
use crate::watchdog;

/// Why a suspended task is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// What the task waits for may have come.
    Run,
    /// The execution has ended: unwind.
    End,
}

/// How a task's code ended.
enum End {
    Returned,
    Panicked(Box<dyn Any + Send>),
    Crashed(Crash),
}

type Body = Coroutine<Resume, (), End, DefaultStack>;

/// How many bytes the stack of a task has.
const STACK: usize = 256 << 10;

/// How many return addresses of a crash are kept.
const FRAMES: usize = 16;

/// A signal that the code of a task raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crash {
    pub(crate) signal: i32,
    /// The address that was accessed, if the signal is a memory fault.
    pub(crate) address: Option<usize>,
    /// The return addresses on the stack, starting after the instruction; 0 after the last.
    pub(crate) callers: [usize; FRAMES],
}

/// The payload that unwinds a task whose execution has ended.
pub(crate) struct Ended;

/// A task as a coroutine.
pub(crate) struct Running {
    body: Option<Body>,
}

/// How a task stopped.
pub(crate) enum Stopped {
    Suspended,
    Returned,
    Panicked(Box<dyn Any + Send>),
    Crashed(Crash),
}

thread_local! {
    /// Where the running task panicked.
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
    static SEARCH: Cell<*mut Search> = const { Cell::new(ptr::null_mut()) };
    static YIELDER: Cell<*const Yielder<Resume, ()>> = const { Cell::new(ptr::null()) };
    /// How to leave the running task.
    static LEAVE: Cell<Option<CoroutineTrapHandler<End>>> = const { Cell::new(None) };
    static STACKS: Cell<Vec<DefaultStack>> = const { Cell::new(Vec::new()) };
}

/// Returns whether this thread runs a task now.
pub(crate) fn inside() -> bool {
    !SEARCH.get().is_null()
}

/// Calls `f` with the search whose task runs on this thread.
pub(crate) fn with<R>(f: impl FnOnce(&mut Search) -> R) -> Option<R> {
    let mut search = NonNull::new(SEARCH.get())?;
    // While `f` runs, hooks called by the checker's own code find no search.
    SEARCH.set(ptr::null_mut());
    // SAFETY: `Running::resume` set the pointer from a `&mut Search` that it holds until the task stops, and the task
    // runs on its thread; the pointer is taken away above, so that no second reference is made.
    let result = f(unsafe { search.as_mut() });
    SEARCH.set(search.as_ptr());
    Some(result)
}

/// Keeps panics of tasks off standard error: an exploration would print thousands. The trace has them.
pub(crate) fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if inside() {
                let place = info
                    .location()
                    .map(|at| format!("{}:{}", at.file(), at.line()));
                PANICKED.set(place);
            } else {
                default(info);
            }
        }));
    });
}

/// Returns where a task last panicked: file and line.
pub(crate) fn panicked_at() -> Option<String> {
    PANICKED.take()
}

/// Suspends the task that runs on this thread.
pub(crate) fn suspend() -> Resume {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only a task can wait");
    // SAFETY: the pointer was set when this task was resumed, and its yielder lives on its stack.
    let resume = unsafe { &*yielder }.suspend(());
    YIELDER.set(yielder);
    resume
}

/// Unwinds the task that runs on this thread, or suspends it forever if it is already unwinding.
pub(crate) fn end() -> ! {
    if std::thread::panicking() {
        loop {
            suspend();
        }
    }
    panic::resume_unwind(Box::new(Ended));
}

/// Leaves the task that runs on this thread, after its code raised a signal in this context. Leaks what the task owns.
/// False if the code is not a task's.
pub(crate) fn crash(signal: i32, address: Option<usize>, context: &mut libc::ucontext_t) -> bool {
    let stack = arch::stack_pointer(context);
    let leave = LEAVE
        .take()
        .filter(|leave| leave.stack_ptr_in_bounds(stack));
    let Some(leave) = leave else { return false };
    if !inside() {
        // A step of the search cannot be abandoned.
        watchdog::overflowed();
        return false;
    }
    watchdog::crashes(signal);
    let crash = Crash {
        signal,
        address,
        callers: callers(arch::instruction(context)),
    };
    // SAFETY: the coroutine runs on this thread and lives: `Running::resume` waits for it. Its frames never run again, no
    // reference to the search is held by one of them, and the handler of the signal continues at these registers.
    let registers = unsafe { leave.setup_trap_handler(move || End::Crashed(crash)) };
    arch::divert(context, &registers);
    true
}

/// The return addresses of the code that a signal interrupted at an instruction.
fn callers(instruction: usize) -> [usize; FRAMES] {
    let mut found = [0; FRAMES];
    let mut len = 0;
    backtrace::trace(|frame| {
        let address = frame.ip().addr();
        if len > 0 {
            found[len] = address;
            len += 1;
        } else if address == instruction {
            found[0] = address + 1;
            len = 1;
        }
        len < FRAMES
    });
    if len == 0 {
        found[0] = instruction + 1;
    }
    found
}

impl Running {
    /// Creates a task that has not begun.
    pub(crate) fn new(body: Box<dyn FnOnce()>) -> std::io::Result<Running> {
        let mut stacks = STACKS.take();
        let stack = stacks.pop();
        STACKS.set(stacks);
        let stack = match stack {
            Some(stack) => stack,
            None => DefaultStack::new(STACK)?,
        };
        let body = Coroutine::with_stack(stack, move |yielder: &Yielder<Resume, ()>, _| {
            YIELDER.set(yielder);
            match panic::catch_unwind(AssertUnwindSafe(body)) {
                Ok(()) => End::Returned,
                Err(payload) if payload.is::<Ended>() => End::Returned,
                Err(payload) => End::Panicked(payload),
            }
        });
        Ok(Running { body: Some(body) })
    }

    /// Runs the task until it suspends or ends.
    pub(crate) fn resume(&mut self, search: &mut Search, resume: Resume) -> Stopped {
        let Some(body) = &mut self.body else {
            return Stopped::Returned;
        };
        LEAVE.set(Some(body.trap_handler()));
        SEARCH.set(search);
        let result = body.resume(resume);
        SEARCH.set(ptr::null_mut());
        LEAVE.set(None);
        match result {
            CoroutineResult::Yield(()) => Stopped::Suspended,
            CoroutineResult::Return(result) => {
                self.reuse();
                match result {
                    End::Returned => Stopped::Returned,
                    End::Panicked(payload) => Stopped::Panicked(payload),
                    End::Crashed(crash) => Stopped::Crashed(crash),
                }
            }
        }
    }

    fn reuse(&mut self) {
        if let Some(body) = self.body.take() {
            let mut stacks = STACKS.take();
            stacks.push(body.into_stack());
            STACKS.set(stacks);
        }
    }

    /// Abandons a task that cannot unwind. What it owns is leaked.
    pub(crate) fn leak(mut self) {
        if let Some(body) = &mut self.body {
            // SAFETY: the frames of the task are never run again, and no pointer into its stack is kept: the search
            // drops what it knows of the task with it. Destructors that would run are leaked.
            unsafe { body.force_reset() };
            self.reuse();
        }
    }
}

/// Takes a step of the task that runs on this thread, and waits as long as the step says.
///
/// Unwinds if the execution has ended.
pub(crate) fn call<R>(step: impl Fn(&mut Search) -> Result<R, Stop>) -> R {
    loop {
        match with(&step).expect("a task of a scenario is running") {
            Ok(result) => return result,
            Err(Stop::Ended) => end(),
            Err(Stop::Blocked) => {
                if suspend() == Resume::End {
                    end();
                }
            }
        }
    }
}

/// Reads the value, and writes the result of `change`, in one step of the task that runs on this thread.
pub(crate) fn update(access: Access, change: impl Fn(u64) -> Option<u64>) -> u64 {
    native::update(access, &change).unwrap_or_else(|| call(|search| search.update(access, &change)))
}
