# The first vcpu interrupts all others COUNT times, each time after the last of them has answered. It has ADDRESS = how many
# others there are and VALUE = how it sends: 0, one write of the interrupt command register for each; 1, one write for all;
# 2 and 3, one hypercall for all, by vmcall or vmmcall. The others have ADDRESS = the first vcpu's page. Each vcpu has its own
# page, and waits halted for its own count of answers, ANSWERED. TARGET counts the interrupts, so that a vcpu which takes one
# twice answers it once: an emulated CPU may deliver it twice (docs/emulator-bugs.md).
20:
    mov r15, [rbx + {ADDRESS}]
    xor r13d, r13d
    sti
    test rsi, rsi
    jnz 7f
1:
    # Each other vcpu answers once when it is ready for the run.
    inc r13
    call 50f
    mov r14, [rbx + {COUNT}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r10, rax
2:
    mov [rbx + {PENDING}], r15
    inc r13
    mov [rbx + {TARGET}], r13
    mov eax, {VECTOR}
    mov ecx, 0x830
    mov r8, [rbx + {VALUE}]
    cmp r8, 1
    ja 4f
    je 8f
    mov edx, r15d
3:
    wrmsr
    dec edx
    jnz 3b
    jmp 5f
8:
    # All excluding self.
    or eax, 0xc0000
    xor edx, edx
    wrmsr
    jmp 5f
4:
    # KVM_HC_SEND_IPI: a bitmap of APIC IDs from rdx on in rbx and rcx, and the command in rsi. The handler needs rbx and
    # rsi, so no interrupt may come.
    cli
    mov r9, rbx
    mov r11, rsi
    mov esi, eax
    mov eax, 10
    mov ecx, r15d
    mov ebx, 1
    shl rbx, cl
    dec rbx
    xor ecx, ecx
    mov edx, 1
    cmp r8, 3
    je 9f
    vmcall
    jmp 11f
9:
    vmmcall
11:
    mov rbx, r9
    mov rsi, r11
    sti
    # The hypercall returns how many vcpus it has interrupted, or an error.
    cmp rax, r15
    jne 6f
5:
    call 50f
    dec r14
    jnz 2b
6:
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r10
    mov [rbx + {TICKS}], rax
    mov rax, [rbx + {COUNT}]
    sub rax, r14
    add [rbx + {RINGS}], rax
    mov [rbx + {PENDING}], r15
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 1b
7:
    xor r14d, r14d
1:
    add r13, [rbx + {COUNT}]
    call 40f
    call 50f
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 1b
# Halts until there are r13 answers. If an interrupt comes between the comparison and hlt, the handler returns to the
# instruction after hlt.
50:
    cmp [rbx + {ANSWERED}], r13
    jae 52f
    hlt
51:
    jmp 50b
52:
    ret
# Answers. The last vcpu to answer interrupts the first vcpu, which may see the count before its interrupt comes.
40:
    lock dec qword ptr [r15 + {PENDING}]
    jnz 1f
    inc qword ptr [r15 + {ANSWERED}]
    mov eax, {VECTOR}
    xor edx, edx
    mov ecx, 0x830
    wrmsr
1:
    ret
30:
    test rsi, rsi
    jz 1f
    # The second of two interrupts may come within the first one's handler, so the decision is a single instruction.
    mov rax, [r15 + {TARGET}]
    xchg rax, r14
    cmp rax, r14
    je 1f
    inc qword ptr [rbx + {ANSWERED}]
    call 40b
1:
    lea rax, [rsp + 40]
    lea rcx, [rip + 50b]
    lea rdx, [rip + 51b]
    jmp 16b
