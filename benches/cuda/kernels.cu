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
