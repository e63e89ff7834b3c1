//! The orders that are weaker than an order, and which of them a model can tell apart.

use crate::graph::Order;
use crate::model::Model;
use crate::search::Operation;

/// The orders one step weaker, in the order in which they are tried. A relaxed fence has no effect.
pub(super) fn weaker(operation: Operation, order: Order) -> &'static [Order] {
    match (operation, order) {
        (Operation::Load | Operation::Failure, Order::SeqCst) => &[Order::Acquire],
        (Operation::Store, Order::SeqCst) => &[Order::Release],
        (_, Order::SeqCst) => &[Order::AcqRel],
        (_, Order::AcqRel) => &[Order::Acquire, Order::Release],
        (_, Order::Acquire | Order::Release) => &[Order::Relaxed],
        (_, Order::Relaxed) => &[],
    }
}

/// Returns whether an order is at least as strong as another.
pub(super) fn is_as_strong(order: Order, as_other: Order) -> bool {
    match as_other {
        Order::Relaxed => true,
        Order::Acquire => order.acquires(),
        Order::Release => order.releases(),
        Order::AcqRel => order.acquires() && order.releases(),
        Order::SeqCst => order == Order::SeqCst,
    }
}

/// Returns whether every execution is the same with either order.
pub(super) fn are_alike(model: Model, operation: Operation, one: Order, other: Order) -> bool {
    match model {
        Model::Sc => true,
        // x86-64's read-modify-writes are full barriers, and its loads and stores acquire and release.
        Model::Tso => match operation {
            Operation::Fence | Operation::Store => {
                (one == Order::SeqCst) == (other == Order::SeqCst)
            }
            Operation::Load | Operation::Update | Operation::Success | Operation::Failure => true,
        },
        Model::Rc11 => one == other,
    }
}
