    // The kernel starts the program here, with the stack aligned.
    .globl _start
_start:
    xorl %ebp, %ebp
    call loader_main
    ud2

    // The tables of the precompiled core library refer to it. Nothing unwinds here.
    .globl rust_eh_personality
rust_eh_personality:
    ud2

    // Functions that the compiler calls; the target normally has them from libc.
    .globl memcpy, memmove, memset, memcmp, bcmp
memcpy:
    movq %rdi, %rax
    movq %rdx, %rcx
    rep movsb
    ret
memmove:
    movq %rdi, %rax
    movq %rdx, %rcx
    subq %rsi, %rdi
    cmpq %rdx, %rdi                     // unsigned: the target begins within the source
    leaq (%rsi,%rdi), %rdi
    jb 1f
    rep movsb
    ret
1:  leaq -1(%rdi,%rcx), %rdi
    leaq -1(%rsi,%rcx), %rsi
    std
    rep movsb
    cld
    ret
memset:
    movq %rdi, %r8
    movl %esi, %eax
    movq %rdx, %rcx
    rep stosb
    movq %r8, %rax
    ret
memcmp:
bcmp:
    xorl %eax, %eax
    movq %rdx, %rcx
    testq %rcx, %rcx
    jz 1f
    repe cmpsb
    movzbl -1(%rdi), %eax
    movzbl -1(%rsi), %edx
    subl %eax, %edx
    movl %edx, %eax
1:  ret
