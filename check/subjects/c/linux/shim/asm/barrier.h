/* The kernel's barriers as C11 fences, with the ordering that each promises, so that the checker sees them all. */
#ifndef SUBJECT_BARRIER_H
#define SUBJECT_BARRIER_H
#include <stdlib.h>

#define barrier() __asm__ volatile("" ::: "memory")
#define virt_mb() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#define virt_rmb() __atomic_thread_fence(__ATOMIC_ACQUIRE)
#define virt_wmb() __atomic_thread_fence(__ATOMIC_RELEASE)
#define virt_store_mb(variable, value)                                                                                 \
	do {                                                                                                           \
		__atomic_store_n(&(variable), (value), __ATOMIC_RELAXED);                                              \
		virt_mb();                                                                                             \
	} while (0)
/* vring_create_virtqueue with strong barriers, as a real device behind a bus needs them. */
#define mb() virt_mb()
#define dma_rmb() virt_rmb()
#define dma_wmb() virt_wmb()
#endif
