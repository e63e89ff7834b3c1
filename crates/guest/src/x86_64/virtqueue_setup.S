# Sets up queue 0 of the virtio-mmio device at ADDRESS (virtio 1.3, 3.1 and 4.2.3), with a split ring of 8 entries at
# VALUE. Each request has 8 bytes, and its answer is the inverted bytes; one request is in flight at a time. The code
# that follows this file finds r14 = number of requests so far, r15 = registers and rsi = ring; an error jumps to its
# label 9. rdi = parameters. At VALUE: descriptors, +0x80 available ring, +0x100 used ring, +0x200 request, +0x280
# answer. If the device does not behave as expected, RINGS does not change.
20:
    mov rbx, rdi
    mov r15, [rbx + {ADDRESS}]
    mov rsi, [rbx + {VALUE}]
    xor r14, r14
    # Two descriptors: the request, which the device reads, chained to the answer, which the device writes.
    lea rax, [rsi + 0x200]
    mov [rsi], rax
    mov dword ptr [rsi + 8], 8
    mov dword ptr [rsi + 12], 0x10001
    lea rax, [rsi + 0x280]
    mov [rsi + 16], rax
    mov dword ptr [rsi + 24], 8
    mov dword ptr [rsi + 28], 2
    # The rings. All their entries are descriptor 0.
    xor eax, eax
    mov ecx, 16
1:
    mov [rsi + rcx * 8 + 0x78], rax
    mov [rsi + rcx * 8 + 0xf8], rax
    dec ecx
    jnz 1b
    # Device status: reset, then ACKNOWLEDGE, then DRIVER.
    mov eax, [r15]
    cmp eax, 0x74726976
    jne 9f
    xor eax, eax
    mov [r15 + 0x70], eax
    mov eax, 1
    mov [r15 + 0x70], eax
    mov eax, 3
    mov [r15 + 0x70], eax
    # Accepts the feature VERSION_1 and no other.
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
    # Selects, sizes and enables queue 0.
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
