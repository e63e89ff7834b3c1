# Drives queue 0 of the virtio-mmio device at ADDRESS (virtio 1.3, 3.1 and 4.2.3) with a split ring of 8
# at VALUE: COUNT requests of 8 bytes, one at a time, each until its answer, the inverted bytes, is there.
# The used ring is polled, so no interrupt is asked for.
# rdi = parameters. At VALUE: descriptors, +0x80 available ring, +0x100 used ring, +0x200 request, +0x280
# answer. A device that is not as it should be leaves RINGS as it was.
    mov rbx, rdi
    mov r15, [rbx + {ADDRESS}]
    mov rsi, [rbx + {VALUE}]
    xor r14, r14
    # Two descriptors: the request, which goes on in the answer, which the device writes.
    lea rax, [rsi + 0x200]
    mov [rsi], rax
    mov dword ptr [rsi + 8], 8
    mov dword ptr [rsi + 12], 0x10001
    lea rax, [rsi + 0x280]
    mov [rsi + 16], rax
    mov dword ptr [rsi + 24], 8
    mov dword ptr [rsi + 28], 2
    # The rings, all of whose entries are descriptor 0; flag 1 is "no interrupt".
    xor eax, eax
    mov ecx, 16
1:
    mov [rsi + rcx * 8 + 0x78], rax
    mov [rsi + rcx * 8 + 0xf8], rax
    dec ecx
    jnz 1b
    mov word ptr [rsi + 0x80], 1
    # Reset, found, driven.
    mov eax, [r15]
    cmp eax, 0x74726976
    jne 9f
    xor eax, eax
    mov [r15 + 0x70], eax
    mov eax, 1
    mov [r15 + 0x70], eax
    mov eax, 3
    mov [r15 + 0x70], eax
    # Version 1, and nothing else.
    xor eax, eax
    mov [r15 + 0x24], eax
    mov [r15 + 0x20], eax
    mov eax, 1
    mov [r15 + 0x24], eax
    mov [r15 + 0x20], eax
    mov eax, 11
    mov [r15 + 0x70], eax
    mov eax, [r15 + 0x70]
    cmp eax, 11
    jne 9f
    # The queue.
    xor eax, eax
    mov [r15 + 0x30], eax
    mov eax, [r15 + 0x34]
    cmp eax, 8
    jb 9f
    mov eax, 8
    mov [r15 + 0x38], eax
    mov eax, esi
    mov [r15 + 0x80], eax
    lea eax, [rsi + 0x80]
    mov [r15 + 0x90], eax
    lea eax, [rsi + 0x100]
    mov [r15 + 0xa0], eax
    xor eax, eax
    mov [r15 + 0x84], eax
    mov [r15 + 0x94], eax
    mov [r15 + 0xa4], eax
    inc eax
    mov [r15 + 0x44], eax
    mov eax, [r15 + 0x44]
    cmp eax, 1
    jne 9f
    mov eax, 15
    mov [r15 + 0x70], eax
2:
    mov r12, [rbx + {COUNT}]
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    mov r13, rax
3:
    inc r14
    mov [rsi + 0x200], r14
    mov [rsi + 0x82], r14w
    # Between the index and the look at whether the device wants to know.
    mfence
    test word ptr [rsi + 0x100], 1
    jnz 4f
    xor eax, eax
    mov [r15 + 0x50], eax
4:
    pause
    cmp [rsi + 0x102], r14w
    jne 4b
    mov rax, [rsi + 0x280]
    not rax
    cmp rax, r14
    jne 9f
    dec r12
    jnz 3b
    lfence
    rdtsc
    shl rdx, 32
    or rax, rdx
    sub rax, r13
    mov [rbx + {TICKS}], rax
    mov rax, [rbx + {COUNT}]
    add [rbx + {RINGS}], rax
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 2b
9:
    mov edx, {DONE_PORT}
    out dx, eax
    jmp 9b
