// The device code of the cache types, run on the host and compared with libggml-base's reference: written bytes, read values, rows of
// strided tensors, and what attention computes from them. Prints a line per broken rule; exits 1 if there was any.

#include "cuda_on_host.h"

#include "kvarn-fattn-vec.cuh"
#include "kvarn-kv-rows.cuh"
#include "test-kvarn-expect.h"

#include <random>
#include <string>

typedef std::vector<float>   floats;
typedef std::vector<uint8_t> bytes;

static floats gaussian(size_t n, unsigned seed, float sigma) {
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0.0f, sigma);
    floats x(n);
    for (float & v : x) {
        v = normal(engine);
    }
    return x;
}

static bytes reference_of(ggml_type type, const floats & x) {
    bytes y(ggml_row_size(type, x.size()));
    ggml_get_type_traits(type)->from_float_ref(x.data(), y.data(), x.size());
    return y;
}

static floats values_of(ggml_type type, const bytes & raw) {
    floats y(raw.size()/ggml_type_size(type)*ggml_blck_size(type));
    ggml_get_type_traits(type)->to_float(raw.data(), y.data(), y.size());
    return y;
}

// one contiguous row
template <class codec>
static bytes written(const floats & x, bool flush) {
    const int64_t n = x.size();
    bytes y(n/codec::qk*sizeof(typename codec::block), 0xEE);
    const kvarn_rows src = { (char *) x.data(), 0, 0, 0 };
    const kvarn_rows dst = { (char *) y.data(), 0, 0, 0 };
    flush_subnormals(flush);
    launch({ (unsigned) (n/codec::qk + 2)/3, 1, 1 }, 3, [&] {
        kvarn_write_rows<codec>({ n, 1, 1, 1 }, src, dst, kvarn_same_row());
    });
    flush_subnormals(false);
    return y;
}

static floats any_input(int n, int round) {
    std::mt19937 engine(round);
    floats x = gaussian(n, 100 + round, std::pow(10.0f, (float) (round % 13) - 6));
    for (float & v : x) {
        if (round % 6 == 1 && engine() % 20 == 0) {
            v = __uint_as_float(engine());                                     // any bits: NaN, Inf, huge, tiny
        }
        if (round % 6 == 2) {
            v = std::round(v*4)/4;                                             // many zeros and ties
        }
        if (round % 6 == 3 && engine() % 3 == 0) {
            v = __uint_as_float(engine() & 0x807FFFFF);                        // subnormal, either sign
        }
        if (round % 6 == 4 && engine() % 3 == 0) {
            v = engine() % 2 ? -0.0f : (engine() % 2 ? -1 : 1)*1e-45f*(engine() % 4);
        }
    }
    return x;
}

template <ggml_type type>
static void test_written_bytes() {
    typedef kvarn_codec<type> codec;
    for (int round = 0; round < 600; ++round) {
        const floats x = any_input(2*codec::qk, round);
        for (bool flush : { false, true }) {
            EXPECT(written<codec>(x, flush) == reference_of(type, x), "%s, round %d, flush %d", ggml_type_name(type), round, flush);
        }
    }
    for (float v : { 0.0f, -0.0f, 1e-30f, 1e-40f, (float) NAN, 65504.0f, 3e38f, (float) INFINITY, (float) -INFINITY }) {
        const floats x(codec::qk, v);
        EXPECT(written<codec>(x, true) == reference_of(type, x), "%s of %g", ggml_type_name(type), v);
    }
    for (int i = 0; i < 2*codec::qk; ++i) { // one value has the whole norm: as far from every level as any can be
        floats x(codec::qk, i % 3 ? 0.0f : 0.01f);
        x[i/2] = i % 2 ? 1.0f : -1.0f;
        EXPECT(written<codec>(x, true) == reference_of(type, x), "%s, all in value %d", ggml_type_name(type), i/2);
    }
}

// A tensor of floats with gaps between its rows, and one of blocks in which rows are in another order
template <ggml_type type, typename idx_t>
static void test_set_rows() {
    typedef kvarn_codec<type> codec;
    const int64_t ne0 = 2*codec::qk, n_rows = 5, ne2 = 3, ne3 = 2, n_dst = 9;
    const int64_t size = 2*sizeof(typename codec::block);
    const int64_t gap = 7;
    const floats x = gaussian((ne0 + gap)*n_rows*ne2*ne3, 1, 1.0f);
    std::vector<idx_t> idx(n_rows*ne3); // shared by all i2
    for (size_t i = 0; i < idx.size(); ++i) {
        idx[i] = (4*i + 1 + i/n_rows) % n_dst;
    }
    bytes y(size*n_dst*ne2*ne3, 0xEE);
    bytes expected = y;
    const int64_t nb1 = 4*(ne0 + gap);
    const kvarn_rows src = { (char *) x.data(), nb1, nb1*n_rows, nb1*n_rows*ne2 };
    const kvarn_rows dst = { (char *) y.data(), size, size*n_dst, size*n_dst*ne2 };
    launch({ (2*(unsigned) n_rows + 3)/4, 2, 1 }, 4, [&] { // fewer blocks in y and z than the tensor has
        kvarn_write_rows<codec>({ ne0, n_rows, ne2, ne3 }, src, dst, kvarn_row_of_index<idx_t>{ idx.data(), 1, ne3, 1, n_rows, n_rows });
    });
    for (int64_t i3 = 0; i3 < ne3; ++i3) {
        for (int64_t i2 = 0; i2 < ne2; ++i2) {
            for (int64_t i1 = 0; i1 < n_rows; ++i1) {
                const float * row = (const float *) (src.data + i1*src.nb1 + i2*src.nb2 + i3*src.nb3);
                const bytes raw = reference_of(type, floats(row, row + ne0));
                memcpy(&expected[idx[i1 + i3*n_rows]*size + i2*dst.nb2 + i3*dst.nb3], raw.data(), size);
            }
        }
    }
    EXPECT(y == expected, "%s with indices of %d bytes", ggml_type_name(type), (int) sizeof(idx_t));
}

template <typename T> static T as(float v);
template <> float as<float>(float v) { return v; }
template <> half  as<half> (float v) { return ggml_fp32_to_fp16(v); }

// Rows are read as numbers: those an index names, from a tensor with gaps, into aligned and unaligned places.
template <ggml_type type, typename T>
static void test_get_rows() {
    typedef kvarn_codec<type> codec;
    const int64_t ne0 = 3*codec::qk, n_src = 7, n_rows = 4, ne2 = 2;
    const int64_t size = 3*sizeof(typename codec::block);
    const bytes  raw    = reference_of(type, gaussian(ne0*n_src*ne2, 2, 3.0f));
    const floats values = values_of(type, raw);
    const std::vector<int32_t> idx = { 6, 0, 3, 3, 1, 2, 5, 4 };
    for (bool aligned : { true, false }) {
        std::vector<T> memory(ne0*n_rows*ne2 + 16, 0);
        T * y = (T *) (((uintptr_t) memory.data() + 15)/16*16) + !aligned;
        const int64_t nb1 = ne0*sizeof(T);
        launch({ ((unsigned) n_rows*((ne0 + 127)/128) + 1)/2, 1, 1 }, 2, [&] {
            kvarn_read_rows<codec, T>({ ne0, n_rows, ne2, 1 }, { (char *) raw.data(), size, size*n_src, 0 }, { (char *) y, nb1, nb1*n_rows, 0 },
                kvarn_row_of_index<int32_t>{ idx.data(), ne2, 1, 1, n_rows, 0 }, aligned);
        });
        int n_wrong = 0;
        for (int64_t i = 0; i < ne0*n_rows*ne2; ++i) {
            const int64_t row = idx[i/ne0], i2 = i/(ne0*n_rows);
            n_wrong += y[i] != as<T>(values[(i2*n_src + row)*ne0 + i%ne0]);
        }
        EXPECT(n_wrong == 0, "%s to %d bytes, aligned %d: %d values", ggml_type_name(type), (int) sizeof(T), aligned, n_wrong);
    }
}

// The K side of attention: lanes share the row as fattn-vec.cuh lets them.
template <ggml_type type, int D>
static void test_dot() {
    constexpr int nthreads = D/4 < 32 ? D/4 : 32;
    constexpr int n_each   = D/4/nthreads;
    const bytes  raw = reference_of(type, gaussian(D, 10 + D, 0.7f));
    const floats k   = values_of(type, raw);
    const floats q   = gaussian(D, 20 + D, 2.0f);
    std::vector<int8_t> q8(D);
    floats scale(D/32);
    for (int i = 0; i < D; ++i) {
        float max = 0;
        for (int j = i/32*32; j < i/32*32 + 32; ++j) {
            max = std::fmax(max, std::fabs(q[j]));
        }
        scale[i/32] = max/127;
        q8[i] = std::round(q[i]/scale[i/32]);
    }
    float sum = 0;
    for (int lane = 0; lane < nthreads; ++lane) {
        threadIdx.x = lane;
        int    Q_q8[n_each];
        float2 Q_ds[n_each];
        for (int j = 0; j < n_each; ++j) {
            const int i = 4*(j*nthreads + lane);
            memcpy(&Q_q8[j], &q8[i], 4);
            Q_ds[j] = { scale[i/32], NAN }; // the sum of the query is for types with an offset
        }
        sum += kvarn_vec_dot_fattn_vec_KQ<type, D, nthreads>((const char *) raw.data(), nullptr, Q_q8, Q_ds);
    }
    double expected = 0, magnitude = 0;
    for (int i = 0; i < D; ++i) {
        expected  += (double) k[i]*q8[i]*scale[i/32];
        magnitude += std::fabs((double) k[i]*q8[i]*scale[i/32]);
    }
    EXPECT(std::fabs(sum - expected) < 1e-6*magnitude, "%s, D = %d: %.9g, not %.9g", ggml_type_name(type), D, sum, expected);
}

template <ggml_type type, typename T, int D>
static void test_dequantize_V() {
    const bytes  raw = reference_of(type, gaussian(D, 30 + D, 5.0f));
    const floats v   = values_of(type, raw);
    for (int i = 0; i < D; i += 4) {
        alignas(16) T y[4];
        kvarn_dequantize_V<type, T, 4>(raw.data(), y, i);
        for (int j = 0; j < 4; ++j) {
            EXPECT(y[j] == as<T>(v[i + j]), "%s value %d as %d bytes", ggml_type_name(type), i + j, (int) sizeof(T));
        }
    }
}

// All codes of a group, not only those that a Gaussian row happens to have
template <ggml_type type>
static void test_every_code() {
    typedef kvarn_codec<type> codec;
    std::mt19937 engine(5);
    for (int round = 0; round < 2000; ++round) {
        bytes raw(sizeof(typename codec::block));
        for (uint8_t & b : raw) {
            b = engine();
        }
        const half one = ggml_fp32_to_fp16(1.0f);
        memcpy(raw.data(), &one, 2);
        const floats v = values_of(type, raw);
        for (int i = 0; i < codec::qk; i += 4) {
            const int levels = codec::levels_4(*(const typename codec::block *) raw.data(), i);
            for (int j = 0; j < 4; ++j) {
                EXPECT((int8_t) (levels >> 8*j) == v[i + j], "%s value %d", ggml_type_name(type), i + j);
            }
        }
    }
}

template <ggml_type type>
static void test_type() {
    static_assert(sizeof(typename kvarn_codec<type>::block) % 2 == 0, "blocks are read by 16 bits");
    EXPECT(sizeof(typename kvarn_codec<type>::block) == ggml_type_size(type) && kvarn_codec<type>::qk == ggml_blck_size(type), "%s", ggml_type_name(type));
    test_written_bytes<type>();
    test_set_rows<type, int64_t>();
    test_set_rows<type, int32_t>();
    test_get_rows<type, float>();
    test_get_rows<type, half>();
    test_every_code<type>();
    if constexpr (kvarn_codec<type>::qk == 64) {
        test_dot<type, 64>();
        test_dequantize_V<type, float, 64>();
        test_dequantize_V<type, half,  64>();
    } else {
        test_dot<type, 128>();
        test_dot<type, 256>();
        test_dequantize_V<type, float, 256>();
        test_dequantize_V<type, half,  256>();
    }
    printf("%-13s compared\n", ggml_type_name(type));
}

int main() {
#define KVARN_TEST(type, codec_t, block_t, qk) test_type<type>();
    KVARN_CUDA_CODECS(KVARN_TEST)
    printf("%s\n", n_broken ? "FAILED" : "all kept");
    return n_broken ? 1 : 0;
}
