//! The tasks of a scenario as coroutines of one thread, and the link from code under test to the search that runs it.
//!
//! A task runs until it has to wait. The search is reached through a thread-local pointer, which is set while a task runs.
#![allow(unsafe_code)]

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};
use std::sync::Once;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::native;
use crate::search::{Access, Search, Stop};

/// Why a suspended task is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resume {
    /// What it waits for may have come.
    Run,
    /// The execution has ended: unwind.
    End,
}

type Body = Coroutine<Resume, (), Result<(), Box<dyn Any + Send>>, DefaultStack>;

/// What unwinds a task whose execution has ended.
pub(crate) struct Ended;

/// A task that runs.
pub(crate) struct Running {
    body: Option<Body>,
}

/// How a task stopped.
pub(crate) enum Stopped {
    Suspended,
    Returned,
    Panicked(Box<dyn Any + Send>),
}

thread_local! {
    /// Where the task that runs panicked.
    static PANICKED: Cell<Option<String>> = const { Cell::new(None) };
    static SEARCH: Cell<*mut Search> = const { Cell::new(ptr::null_mut()) };
    static YIELDER: Cell<*const Yielder<Resume, ()>> = const { Cell::new(ptr::null()) };
    static STACKS: Cell<Vec<DefaultStack>> = const { Cell::new(Vec::new()) };
}

/// Whether this thread runs a task now.
pub(crate) fn inside() -> bool {
    !SEARCH.get().is_null()
}

/// Calls `f` with the search whose task runs on this thread.
pub(crate) fn with<R>(f: impl FnOnce(&mut Search) -> R) -> Option<R> {
    let mut search = NonNull::new(SEARCH.get())?;
    // While `f` runs, hooks of the checker's code find no search.
    SEARCH.set(ptr::null_mut());
    // SAFETY: `Running::resume` set the pointer from a `&mut Search` that it holds until the task stops, and the task
    // runs on its thread; the pointer is taken away above, so that no second reference is made.
    let result = f(unsafe { search.as_mut() });
    SEARCH.set(search.as_ptr());
    Some(result)
}

/// Keeps panics of tasks from standard error, where an exploration would write thousands: the trace has them.
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

/// Where the last task that panicked did so: file and line.
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

/// Unwinds the task that runs on this thread, or suspends it forever if it unwinds already.
pub(crate) fn end() -> ! {
    if std::thread::panicking() {
        loop {
            suspend();
        }
    }
    panic::resume_unwind(Box::new(Ended));
}

impl Running {
    /// A task that has not begun.
    pub(crate) fn new(body: Box<dyn FnOnce()>) -> std::io::Result<Running> {
        let mut stacks = STACKS.take();
        let stack = stacks.pop();
        STACKS.set(stacks);
        let stack = match stack {
            Some(stack) => stack,
            None => DefaultStack::new(256 << 10)?,
        };
        let body = Coroutine::with_stack(stack, move |yielder: &Yielder<Resume, ()>, _| {
            YIELDER.set(yielder);
            panic::catch_unwind(AssertUnwindSafe(body))
        });
        Ok(Running { body: Some(body) })
    }

    /// Runs the task until it suspends or ends.
    pub(crate) fn resume(&mut self, search: &mut Search, resume: Resume) -> Stopped {
        let Some(body) = &mut self.body else {
            return Stopped::Returned;
        };
        SEARCH.set(search);
        let result = body.resume(resume);
        SEARCH.set(ptr::null_mut());
        match result {
            CoroutineResult::Yield(()) => Stopped::Suspended,
            CoroutineResult::Return(result) => {
                self.reuse();
                match result {
                    Err(payload) if !payload.is::<Ended>() => Stopped::Panicked(payload),
                    _ => Stopped::Returned,
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

/// Reads, and writes what `change` makes of the value, in one step of the task that runs on this thread.
pub(crate) fn update(access: Access, change: impl Fn(u64) -> Option<u64>) -> u64 {
    native::update(access, &change).unwrap_or_else(|| call(|search| search.update(access, &change)))
}
