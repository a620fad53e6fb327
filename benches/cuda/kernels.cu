// The benchmarks' kernels in CUDA C++, step by step as src/kernels.rs has them, without bounds checks.

extern "C" __global__ void saxpy(float a, const float *__restrict__ x, float *__restrict__ y, size_t len) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) y[i] = a * x[i] + y[i];
}

__device__ float warp_sum(float value) {
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

__device__ float block_sum(float value) {
    __shared__ float slots[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = warp_sum(value);
    if (lane == 0) slots[warp] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / 32 ? slots[lane] : 0.0f);
}

extern "C" __global__ void sum(const float4 *__restrict__ x, size_t len, float *__restrict__ partial) {
    float total = 0.0f;
    size_t first = (size_t)blockIdx.x * blockDim.x + threadIdx.x, step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = first; i < len; i += step) {
        float4 v = x[i];
        total += (v.x + v.y) + (v.z + v.w);
    }
    total = block_sum(total);
    if (threadIdx.x == 0) partial[first] = total;
}

extern "C" __global__ void map(const float *__restrict__ x, float *__restrict__ y, size_t len) {
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) {
        float v = x[i];
        y[i] = expf(sinf(v) * cosf(v)) + logf(fabsf(v) + 1.0f) + tanhf(v * v * v);
    }
}

extern "C" __global__ void places(unsigned width, unsigned height, unsigned *__restrict__ y, size_t len) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < len) {
        unsigned row = i / width, column = i % width;
        y[i] = column ^ (row % height) << 8 ^ (row / height) << 16;
    }
}

constexpr int TILE = 128, DEPTH = 16, PATCH = 8;

extern "C" __global__ void __launch_bounds__(256) sgemm(const float4 *__restrict__ a, const float4 *__restrict__ b,
                                                         float4 *__restrict__ c, size_t columns, size_t inner) {
    __shared__ __align__(16) float a_tile[DEPTH][TILE];
    __shared__ __align__(16) float b_tile[DEPTH][TILE];
    size_t thread = threadIdx.x;
    size_t row = (size_t)blockIdx.y * TILE, column = (size_t)blockIdx.x * TILE;
    size_t patch_row = thread / 16 * PATCH, patch_column = thread % 16 * PATCH;
    float total[PATCH][PATCH] = {};
    for (size_t start = 0; start < inner; start += DEPTH) {
        float4 a_fours[2], b_fours[2];
        #pragma unroll
        for (size_t part = 0; part < 2; part++) {
            size_t id = thread + part * 256;
            a_fours[part] = a[((row + id / 4) * inner + start + id % 4 * 4) / 4];
            b_fours[part] = b[((start + id / 32) * columns + column + id % 32 * 4) / 4];
        }
        #pragma unroll
        for (size_t part = 0; part < 2; part++) {
            size_t id = thread + part * 256, k = id % 4 * 4, r = id / 4;
            float4 v = a_fours[part];
            a_tile[k][r] = v.x;
            a_tile[k + 1][r] = v.y;
            a_tile[k + 2][r] = v.z;
            a_tile[k + 3][r] = v.w;
            *(float4 *)&b_tile[id / 32][id % 32 * 4] = b_fours[part];
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            float left[PATCH], right[PATCH];
            #pragma unroll
            for (int i = 0; i < PATCH; i++) left[i] = a_tile[k][patch_row + i];
            #pragma unroll
            for (int j = 0; j < PATCH; j++) right[j] = b_tile[k][patch_column + j];
            #pragma unroll
            for (int i = 0; i < PATCH; i++) {
                #pragma unroll
                for (int j = 0; j < PATCH; j++) total[i][j] = fmaf(left[i], right[j], total[i][j]);
            }
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < PATCH; i++) {
        #pragma unroll
        for (int j = 0; j < PATCH / 4; j++) {
            float *t = &total[i][4 * j];
            c[((row + patch_row + i) * columns + column + patch_column) / 4 + j] = make_float4(t[0], t[1], t[2], t[3]);
        }
    }
}

// The kernels of the examples.

extern "C" __global__ void __launch_bounds__(256) tree_sum(const float4 *__restrict__ x, size_t len, float *__restrict__ sums) {
    __shared__ float slots[256];
    size_t thread = threadIdx.x;
    float total = 0.0f;
    for (size_t i = (size_t)blockIdx.x * 256 + thread; i < len; i += (size_t)gridDim.x * 256) {
        float4 v = x[i];
        total += (v.x + v.y) + (v.z + v.w);
    }
    slots[thread] = total;
    __syncthreads();
    for (size_t half = 128; half > 0; half /= 2) {
        if (thread < half) slots[thread] = slots[thread] + slots[thread + half];
        __syncthreads();
    }
    if (thread == 0) sums[blockIdx.x] = slots[0];
}

template <int WARPS> __device__ unsigned scan_of_block(unsigned value, unsigned &total) {
    __shared__ unsigned slots[WARPS];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unsigned running = value;
    #pragma unroll
    for (int distance = 1; distance < 32; distance *= 2) {
        unsigned other = __shfl_up_sync(0xffffffffu, running, distance);
        if (lane >= distance) running += other;
    }
    if (lane == 31) slots[warp] = running;
    __syncthreads();
    unsigned before = 0;
    total = 0;
    #pragma unroll
    for (int other = 0; other < WARPS; other++) {
        if (other == warp) before = total;
        total += slots[other];
    }
    __syncthreads();
    return before + running - value;
}

constexpr int ITEMS = 4;

__device__ void load(const uint4 *__restrict__ x, size_t len, uint4 *fours) {
    size_t first = (size_t)blockIdx.x * 256 * ITEMS + threadIdx.x;
    #pragma unroll
    for (int round = 0; round < ITEMS; round++) {
        size_t i = first + round * 256;
        fours[round] = i < len ? x[i] : make_uint4(0, 0, 0, 0);
    }
}

extern "C" __global__ void __launch_bounds__(256) block_sums(const uint4 *__restrict__ x, size_t len, unsigned *__restrict__ sums) {
    uint4 fours[ITEMS];
    load(x, len, fours);
    unsigned own = 0, total;
    #pragma unroll
    for (int round = 0; round < ITEMS; round++) own += fours[round].x + fours[round].y + fours[round].z + fours[round].w;
    scan_of_block<8>(own, total);
    if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

extern "C" __global__ void __launch_bounds__(1024) sums_before(unsigned *sums, size_t len) {
    unsigned carry = 0;
    for (size_t first = 0; first < len; first += 1024) {
        size_t i = first + threadIdx.x;
        unsigned total, before = scan_of_block<32>(i < len ? sums[i] : 0, total);
        if (i < len) sums[i] = carry + before;
        carry += total;
    }
}

extern "C" __global__ void __launch_bounds__(256) running_sums(const uint4 *__restrict__ x, const unsigned *__restrict__ before,
                                                                uint4 *__restrict__ y, size_t len) {
    uint4 fours[ITEMS];
    load(x, len, fours);
    unsigned carry = before[blockIdx.x];
    size_t first = (size_t)blockIdx.x * 256 * ITEMS + threadIdx.x;
    #pragma unroll
    for (int round = 0; round < ITEMS; round++) {
        uint4 v = fours[round];
        unsigned ab = v.x + v.y, cd = v.z + v.w, total;
        unsigned own = carry + scan_of_block<8>(ab + cd, total);
        carry += total;
        size_t i = first + round * 256;
        if (i < len) y[i] = make_uint4(own + v.x, own + ab, own + ab + v.z, own + ab + cd);
    }
}

constexpr int SIDE = 32, ROWS = 4, BLOCK_ROWS = SIDE / ROWS, WITH_RIM = SIDE + 2;

extern "C" __global__ void __launch_bounds__(256) transpose(const float *__restrict__ x, float *__restrict__ y, size_t width,
                                                             size_t height) {
    __shared__ float tile[SIDE][SIDE + 1];
    size_t column = threadIdx.x, row = threadIdx.y, left = (size_t)blockIdx.x * SIDE, top = (size_t)blockIdx.y * SIDE;
    #pragma unroll
    for (int part = 0; part < ROWS; part++) {
        size_t own = row + part * BLOCK_ROWS;
        if (left + column < width && top + own < height) tile[own][column] = x[(top + own) * width + left + column];
    }
    __syncthreads();
    #pragma unroll
    for (int part = 0; part < ROWS; part++) {
        size_t own = row + part * BLOCK_ROWS;
        if (top + column < height && left + own < width) y[(left + own) * height + top + column] = tile[column][own];
    }
}

__device__ size_t inside(size_t place, size_t size) {
    return (size_t)max(min((int)place - 1, (int)size - 1), 0);
}

extern "C" __global__ void __launch_bounds__(256) spread(float rate, const float *__restrict__ x, float *__restrict__ y,
                                                          size_t width, size_t height) {
    __shared__ float tile[WITH_RIM][WITH_RIM];
    size_t column = threadIdx.x, row = threadIdx.y, left = (size_t)blockIdx.x * SIDE, top = (size_t)blockIdx.y * SIDE;
    constexpr int ROUNDS = (WITH_RIM * WITH_RIM + SIDE * BLOCK_ROWS - 1) / (SIDE * BLOCK_ROWS);
    float values[ROUNDS];
    #pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        size_t slot = row * SIDE + column + round * SIDE * BLOCK_ROWS;
        if (slot < WITH_RIM * WITH_RIM) {
            size_t from_row = inside(top + slot / WITH_RIM, height), from_column = inside(left + slot % WITH_RIM, width);
            values[round] = x[from_row * width + from_column];
        }
    }
    #pragma unroll
    for (int round = 0; round < ROUNDS; round++) {
        size_t slot = row * SIDE + column + round * SIDE * BLOCK_ROWS;
        if (slot < WITH_RIM * WITH_RIM) (&tile[0][0])[slot] = values[round];
    }
    __syncthreads();
    #pragma unroll
    for (int part = 0; part < ROWS; part++) {
        size_t own = row + part * BLOCK_ROWS;
        if (left + column < width && top + own < height) {
            float middle = tile[own + 1][column + 1];
            float around = (tile[own][column + 1] + tile[own + 2][column + 1]) + (tile[own + 1][column] + tile[own + 1][column + 2]);
            y[(top + own) * width + left + column] = middle + rate * (around - 4.0f * middle);
        }
    }
}
